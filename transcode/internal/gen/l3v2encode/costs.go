package main

import (
	"encoding/binary"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// lanes8 addresses the 8 lanes of a block.
type lanes8 struct{ at, at4, pitch, pitch3 reg.GPVirtual }

func newLanes8() lanes8 {
	l := lanes8{Arg("at"), GP64(), Arg("pitch"), GP64()}
	LEAQ(Mem{Base: l.pitch, Index: l.pitch, Scale: 2}, l.pitch3)
	return l
}

// begin is called at the beginning of each block.
func (l *lanes8) begin() { LEAQ(Mem{Base: l.at, Index: l.pitch, Scale: 4}, l.at4) }

// next moves on to the next 8 lanes.
func (l *lanes8) next() { LEAQ(Mem{Base: l.at, Index: l.pitch, Scale: 8}, l.at) }

func (l *lanes8) lane(i int) Mem {
	base := l.at
	if i >= 4 {
		base = l.at4
	}
	switch i % 4 {
	case 1:
		return Mem{Base: base, Index: l.pitch, Scale: 1}
	case 2:
		return Mem{Base: base, Index: l.pitch, Scale: 2}
	case 3:
		return Mem{Base: base, Index: l.pitch3, Scale: 1}
	}
	return Mem{Base: base}
}

// eachGroup runs body, which sets code and next of l, for all groups of steps and the
// four blocks of each, and stores the codes.
func (l *lanes8) eachGroup(body func(code reg.GPVirtual)) {
	codes, groups := Arg("codes"), Arg("groups")
	// From behind the last lane of a group to the first one of the next.
	back := GP64()
	MOVQ(l.pitch, back)
	SHLQ(U8(5), back)
	SUBQ(U8(8), back)
	Label("group")
	word, count := GP64(), GP64()
	XORQ(word, word)
	MOVQ(U32(4), count)
	Label("block")
	l.begin()
	code := GP64()
	body(code)
	l.next()
	SHRQ(U8(4), word)
	SHLQ(U8(12), code)
	ORQ(code, word)
	DECQ(count)
	JNZ(LabelRef("block"))
	MOVW(word.As16(), Mem{Base: codes})
	ADDQ(U8(2), codes)
	SUBQ(back, l.at)
	DECQ(groups)
	JNZ(LabelRef("group"))
}

// fold makes width the number of bits that the bytes of a word need. It changes v.
func fold(v, width reg.GPVirtual) {
	for _, n := range []uint8{32, 16, 8} {
		t := GP64()
		MOVQ(v, t)
		SHRQ(U8(n), t)
		ORQ(t, v)
	}
	MOVBLZX(v.As8(), v.As32())
	// The highest bit of 2v+1 is there even for 0.
	LEAQ(Mem{Base: v, Index: v, Scale: 1, Disp: 1}, v)
	BSRQ(v, width)
}

func fastCosts() {
	Kernel("fastCostsAVX2", "func(codes *uint16, at *byte, pitch, groups int) int",
		`sets the codes of blocks without Rice codes, and returns how many bits they take. Step s of lane r is at
r*pitch + s.`)
	l := newLanes8()
	sum := GP64()
	XORQ(sum, sum)
	l.eachGroup(func(code reg.GPVirtual) {
		v := GP64()
		MOVQ(l.lane(0), v)
		for i := 1; i < 8; i++ {
			ORQ(l.lane(i), v)
		}
		fold(v, code)
		ADDQ(code, sum)
	})
	SHLQ(U8(6), sum)
	Store(sum, ReturnIndex(0))
	RET()
}

func denseCosts() {
	var shifted, thresholds, none []byte
	base := make([]byte, 16)
	for k := range rices {
		shifted = append(shifted, bytesOf(32, 0xff>>k)...)
		thresholds = append(thresholds, bytesOf(32, 1<<k)...)
		n := make([]byte, 16)
		binary.LittleEndian.PutUint16(n[2*k:], 0xffff)
		none = append(none, n...)
		binary.LittleEndian.PutUint16(base[2*k:], uint16(64*(k+1)))
	}
	shiftedMem, thresholdsMem, noneMem := Data("shifted", shifted), Data("thresholds", thresholds), Data("none", none)
	baseMem, eightMem := Data("base", base), Repeated("eight", byte(planes))
	Kernel("denseCostsAVX2", "func(codes *uint16, at *byte, pitch, groups int) int",
		`is fastCostsAVX2 with Rice codes.`)
	l := newLanes8()
	// price[k] is what a quotient of 0 to 8 takes beyond the bits that every sample does;
	// 8 stands for all escapes. From 5 raw bits on there are none.
	var price [5]Vec
	for k := range price {
		p := make([]byte, 32)
		for i := range p {
			p[i] = byte(i % 16)
			if i%16 == planes {
				p[i] = byte(planes - 1 + 8 - k)
			}
		}
		price[k] = Loaded(Data(fmt.Sprintf("price%d", k), p))
	}
	eight, zero := Loaded(eightMem), Zeros()
	sum := GP64()
	XORQ(sum, sum)
	l.eachGroup(func(code reg.GPVirtual) {
		z := [2]Vec{YMM(), YMM()}
		for i, v := range z {
			h := XMM()
			VMOVQ(l.lane(4*i), v.AsX())
			VMOVHPS(l.lane(4*i+1), v.AsX(), v.AsX())
			VMOVQ(l.lane(4*i+2), h)
			VMOVHPS(l.lane(4*i+3), h, h)
			VINSERTI128(U8(1), h, v, v)
		}
		// Sums of four samples' costs each, in words: four numbers of raw bits each.
		acc := [2]Vec{}
		for k := range rices {
			var q [2]Vec
			for i := range z {
				q[i] = z[i]
				if k > 0 {
					q[i] = YMM()
					VPSRLW(U8(k), z[i], q[i])
					VPAND(shiftedMem.Offset(32*k), q[i], q[i])
				}
				if k < len(price) {
					q[i] = Apply(VPSHUFB, price[k], Minimum(q[i], eight))
				}
			}
			s := Plus(q[0], q[1])
			VPSADBW(zero, s, s)
			if k%4 == 0 {
				acc[k/4] = s
				continue
			}
			VPSLLQ(U8(16*(k%4)), s, s)
			VPOR(s, acc[k/4], acc[k/4])
		}
		costs := Apply(VPADDW, Apply(VPUNPCKLQDQ, acc[0], acc[1]), Apply(VPUNPCKHQDQ, acc[0], acc[1]))
		h := XMM()
		VEXTRACTI128(U8(1), costs, h)
		c := Apply16(VPADDW, costs.AsX(), h)
		VPADDW(baseMem, c, c)
		// What raw samples take comes last.
		all := Or(z[0], z[1])
		VEXTRACTI128(U8(1), all, h)
		VPOR(all.AsX(), h, h)
		VPUNPCKHQDQ(h, h, all.AsX())
		VPOR(all.AsX(), h, h)
		v := GP64()
		VMOVQ(h, v)
		fold(v, code)
		MOVQ(code, v)
		SHLQ(U8(6), v)
		VPINSRW(U8(7), v.As32(), c, c)
		Label("least")
		least, index := GP64(), GP64()
		VPHMINPOSUW(c, h)
		VMOVQ(h, least)
		MOVL(least.As32(), index.As32())
		SHRL(U8(16), index.As32())
		CMPL(index.As32(), U8(rices))
		JE(LabelRef("chosen"))
		// Samples that have a quotient that is not 0.
		at := GP64()
		MOVQ(index, at)
		SHLQ(U8(5), at)
		table := GP64()
		LEAQ(thresholdsMem, table)
		threshold := Loaded(Mem{Base: table, Index: at, Scale: 1})
		low, high := GP64(), GP64()
		VPMOVMSKB(Apply(VPCMPEQB, Maximum(z[0], threshold), z[0]), low.As32())
		VPMOVMSKB(Apply(VPCMPEQB, Maximum(z[1], threshold), z[1]), high.As32())
		SHLQ(U8(32), high)
		ORQ(high, low)
		POPCNTQ(low, low)
		CMPL(low.As32(), U8(maxQuotients))
		JBE(LabelRef("rice"))
		SHRQ(U8(1), at)
		LEAQ(noneMem, table)
		VPOR(Mem{Base: table, Index: at, Scale: 1}, c, c)
		JMP(LabelRef("least"))
		Label("rice")
		LEAQ(Mem{Base: index, Disp: codeRice}, code)
		Label("chosen")
		MOVWLZX(least.As16(), least.As32())
		ADDQ(least, sum)
	})
	Store(sum, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
