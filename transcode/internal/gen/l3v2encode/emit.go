package main

import (
	"encoding/binary"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// stream holds what appends to streams.
type stream struct{ memory, pos reg.GPVirtual }

// put appends n bits of v, which it changes, to stream i.
func (s stream) put(i int, v, n reg.GPVirtual) {
	pos, at, bit := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: s.pos, Disp: 8 * i}, pos)
	MOVQ(pos, at)
	SHRQ(U8(3), at)
	MOVL(pos.As32(), bit.As32())
	ANDL(U8(7), bit.As32())
	SHLXQ(bit, v, v)
	// The byte that the stream ends in; behind it is nothing that is wanted.
	MOVBLZX(Mem{Base: s.memory, Index: at, Scale: 1}, bit.As32())
	ORQ(bit, v)
	MOVQ(v, Mem{Base: s.memory, Index: at, Scale: 1})
	ADDQ(n, pos)
	MOVQ(pos, Mem{Base: s.pos, Disp: 8 * i})
}

func emit() {
	// Of each code: the bits of 8 bytes that are raw, and how many there are in a byte.
	var rawBits, widths, shifts []byte
	for code := range 16 {
		w := code
		if code >= codeRice {
			w = code - codeRice
		}
		rawBits = binary.LittleEndian.AppendUint64(rawBits, 0x0101010101010101*(1<<w-1))
		widths = append(widths, byte(w))
	}
	for k := range rices {
		shifts = append(shifts, bytesOf(32, 0xff>>k)...)
	}
	rawBitsMem, widthsMem, quotientsMem := Data("rawBits", rawBits), Data("widths", widths), Data("quotients", shifts)
	mostMem, nearMem := Repeated("most", byte(planes)), Repeated("near", 127)

	Kernel("emitAVX2", "func(dst, streams *byte, pos *[8]uint64, at *byte, pitch int, codes uint64) int",
		`writes four blocks with these codes and returns how many bytes of dst they take; it may write 8 more.
Step s of lane r is at r*pitch + s. Positions are those of the ends of the streams, in bits.`)
	l := newLanes8()
	dst, codes := Arg("dst"), Arg("codes")
	s := stream{Arg("streams"), Arg("pos")}
	// All codes have 16 bits; one above them ends the loop.
	BTSQ(U8(16), codes)
	samples := AllocLocal(64)
	minusOne := YMM()
	VPCMPEQB(minusOne, minusOne, minusOne)
	Label("block")
	l.begin()
	step := steps(l)
	width, code := GP64(), GP64()
	MOVL(codes.As32(), code.As32())
	ANDL(U8(15), code.As32())
	table := GP64()
	LEAQ(widthsMem, table)
	MOVBLZX(Mem{Base: table, Index: code, Scale: 1}, width.As32())
	CMPL(code.As32(), U8(codeRice))
	JB(LabelRef("raw"))

	// Quotients, 8 for escapes, plus 127: whose highest bit is set has one that is 1 or
	// more. What is 1 less then tells of 2, and so on.
	q := [2]Vec{YMM(), YMM()}
	count, at := XMM(), GP64()
	VMOVQ(width, count)
	MOVQ(width, at)
	SHLQ(U8(5), at)
	LEAQ(quotientsMem, table)
	mask := Loaded(Mem{Base: table, Index: at, Scale: 1})
	for i := range q {
		VINSERTI128(U8(1), step[2*i+1], step[2*i].AsY(), q[i])
		VMOVDQU(q[i], samples.Offset(32*i))
		VPSRLW(count, q[i], q[i])
		VPAND(mask, q[i], q[i])
		VPMINUB(mostMem, q[i], q[i])
		VPADDB(nearMem, q[i], q[i])
	}
	plane := func() reg.GPVirtual {
		low, high := GP64(), GP64()
		VPMOVMSKB(q[0], low.As32())
		VPMOVMSKB(q[1], high.As32())
		SHLQ(U8(32), high)
		ORQ(high, low)
		return low
	}
	above := plane()
	MOVQ(above, Mem{Base: dst})
	ADDQ(U8(8), dst)
	for i := 2; i <= planes; i++ {
		if i == planes {
			TESTQ(above, above)
			JZ(LabelRef("raw"))
		}
		for _, v := range q {
			VPADDB(minusOne, v, v)
		}
		p := plane()
		v, n := GP64(), GP64()
		PEXTQ(above, p, v)
		POPCNTQ(above, n)
		s.put(i-2, v, n)
		above = p
	}
	Label("escape")
	TESTQ(above, above)
	JZ(LabelRef("raw"))
	i, v, n := GP64(), GP64(), GP64()
	TZCNTQ(above, i)
	BLSRQ(above, above)
	LEAQ(samples, table)
	MOVBLZX(Mem{Base: table, Index: i, Scale: 1}, v.As32())
	SHRXQ(width, v, v)
	MOVQ(U32(8), n)
	SUBQ(width, n)
	s.put(planes-1, v, n)
	JMP(LabelRef("escape"))

	Label("raw")
	LEAQ(rawBitsMem, table)
	bits := GP64()
	MOVQ(Mem{Base: table, Index: code, Scale: 8}, bits)
	for i := range 8 {
		v := GP64()
		if i%2 == 0 {
			VMOVQ(step[i/2], v)
		} else {
			VPEXTRQ(U8(1), step[i/2], v)
		}
		PEXTQ(bits, v, v)
		MOVQ(v, Mem{Base: dst})
		ADDQ(width, dst)
	}
	l.next()
	SHRL(U8(4), codes.As32())
	CMPL(codes.As32(), U8(1))
	JNE(LabelRef("block"))
	SUBQ(Arg("dst"), dst)
	Store(dst, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// steps loads a block and returns its steps, two in each.
func steps(l lanes8) (out [4]Vec) {
	var in, pairs, fours [8]Vec
	for i := range in {
		in[i] = XMM()
		VMOVQ(l.lane(i), in[i])
	}
	for i := range 4 {
		pairs[i] = Apply16(VPUNPCKLBW, in[2*i], in[2*i+1])
	}
	for i := range 2 {
		fours[i] = Apply16(VPUNPCKLWD, pairs[2*i], pairs[2*i+1])
		fours[2+i] = Apply16(VPUNPCKHWD, pairs[2*i], pairs[2*i+1])
	}
	for i := range 2 {
		out[2*i] = Apply16(VPUNPCKLDQ, fours[2*i], fours[2*i+1])
		out[2*i+1] = Apply16(VPUNPCKHDQ, fours[2*i], fours[2*i+1])
	}
	return out
}
