package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// overlapped runs body for 16 pixels at a time, i being the first of them. The last 16
// overlap those before if they have to.
func overlapped(n, i reg.GPVirtual, body func()) {
	SUBQ(U8(16), n)
	XORQ(i, i)
	Label("pixels")
	body()
	CMPQ(i, n)
	JE(LabelRef("done"))
	ADDQ(U8(16), i)
	CMPQ(i, n)
	CMOVQGT(n, i)
	JMP(LabelRef("pixels"))
	Label("done")
	RET()
}

func deinterleave3() {
	// take[c][o] moves those bytes of the o-th 16 of 48 bytes that are of channel c to
	// where they are among the 16 of that channel.
	var take [3][3]Mem
	for c := range 3 {
		for o := range 3 {
			m := bytesOf(16, 0xff)
			for i := range m {
				if at := 3*i + c - 16*o; at >= 0 && at < 16 {
					m[i] = byte(at)
				}
			}
			take[c][o] = Data(fmt.Sprintf("take%d%d", c, o), m)
		}
	}
	Kernel("deinterleave3AVX2", "func(a, b, c, src *byte, n int)",
		`takes n pixels of 3 samples apart, at least 16.`)
	out := []reg.GPVirtual{Arg("a"), Arg("b"), Arg("c")}
	src, n, i, at := Arg("src"), Arg("n"), GP64(), GP64()
	overlapped(n, i, func() {
		LEAQ(Mem{Base: i, Index: i, Scale: 2}, at)
		var in [3]Vec
		for o := range in {
			in[o] = XMM()
			VMOVDQU(Mem{Base: src, Index: at, Scale: 1, Disp: 16 * o}, in[o])
		}
		for c := range out {
			d := Apply16(VPSHUFB, in[0], take[c][0])
			d = Apply16(Three(VPOR), d, Apply16(VPSHUFB, in[1], take[c][1]))
			d = Apply16(Three(VPOR), d, Apply16(VPSHUFB, in[2], take[c][2]))
			VMOVDQU(d, Mem{Base: out[c], Index: i, Scale: 1})
		}
	})
}

func deinterleave4() {
	m := make([]byte, 16)
	for i := range m {
		m[i] = byte(i%4*4 + i/4)
	}
	sorted := Data("sorted", m)
	Kernel("deinterleave4AVX2", "func(a, b, c, d, src *byte, n int)",
		`takes n pixels of 4 samples apart, at least 16.`)
	out := []reg.GPVirtual{Arg("a"), Arg("b"), Arg("c"), Arg("d")}
	src, n, i, at := Arg("src"), Arg("n"), GP64(), GP64()
	overlapped(n, i, func() {
		MOVQ(i, at)
		SHLQ(U8(2), at)
		// Four pixels each, sorted by channel: 4 bytes of each.
		var in [4]Vec
		for o := range in {
			in[o] = XMM()
			VMOVDQU(Mem{Base: src, Index: at, Scale: 1, Disp: 16 * o}, in[o])
			VPSHUFB(sorted, in[o], in[o])
		}
		ab, cd := Apply16(VPUNPCKLDQ, in[0], in[1]), Apply16(VPUNPCKHDQ, in[0], in[1])
		ab2, cd2 := Apply16(VPUNPCKLDQ, in[2], in[3]), Apply16(VPUNPCKHDQ, in[2], in[3])
		for c, d := range []Vec{
			Apply16(VPUNPCKLQDQ, ab, ab2), Apply16(VPUNPCKHQDQ, ab, ab2),
			Apply16(VPUNPCKLQDQ, cd, cd2), Apply16(VPUNPCKHQDQ, cd, cd2),
		} {
			VMOVDQU(d, Mem{Base: out[c], Index: i, Scale: 1})
		}
	})
}

func colours() {
	middle := Repeated("middle", 0x80)
	Kernel("coloursAVX2", "func(green *byte, size, n int)",
		`computes a row of the differences of colours in planes of that size; green is in the first of them. It
takes 32 samples at a time, and so up to 31 more than n.`)
	green, size, n := Arg("green"), Arg("size"), Arg("n")
	// In the order of the planes: green, three differences, red, blue.
	size3 := GP64()
	LEAQ(Mem{Base: size, Index: size, Scale: 2}, size3)
	red := GP64()
	LEAQ(Mem{Base: green, Index: size, Scale: 4}, red)
	mid := Loaded(middle)
	Label("samples")
	g, r, b := Loaded(Mem{Base: green}), Loaded(Mem{Base: red}), Loaded(Mem{Base: red, Index: size, Scale: 1})
	// Adding 128 is the same as turning the highest bit over.
	VMOVDQU(Xor(Minus(r, g), mid), Mem{Base: green, Index: size, Scale: 1})
	VMOVDQU(Xor(Minus(b, g), mid), Mem{Base: green, Index: size, Scale: 2})
	VMOVDQU(Xor(Minus(b, Average(r, g)), mid), Mem{Base: green, Index: size3, Scale: 1})
	ADDQ(U8(32), green)
	ADDQ(U8(32), red)
	SUBQ(U8(32), n)
	JG(LabelRef("samples"))
	VZEROUPPER()
	RET()
}

func residuals() {
	const doc = " It reads up to 31 more\nsamples, and makes the 32 residuals after the row 0."
	Kernel("residualsAVX2", "func(med, avg, mix, at, top *byte, n int)",
		"computes the residuals of a row of n samples, zigzag-coded, for each predictor."+doc)
	eachResidual(Arg("med"), Arg("avg"), Arg("mix"))
	Kernel("residualsMEDAVX2", "func(med, at, top *byte, n int)",
		"computes the residuals of a row of n samples, zigzag-coded, for MED."+doc)
	eachResidual(Arg("med"))
}

// eachResidual computes those of as many predictors as there is something to write to.
func eachResidual(out ...reg.GPVirtual) {
	at, top, n, x := Arg("at"), Arg("top"), Arg("n"), GP64()
	zero := Zeros()
	XORQ(x, x)
	Label("samples")
	from := func(p reg.GPVirtual, d int) Vec { return Loaded(Mem{Base: p, Index: x, Scale: 1, Disp: d}) }
	v, l, t, tl := from(at, 0), from(at, -1), from(top, 0), from(top, -1)
	most, least := Maximum(l, t), Minimum(l, t)
	med := Minus(Plus(most, least), Minimum(Maximum(tl, least), most))
	predictions := []Vec{med}
	if len(out) > 1 {
		avg := Average(l, t)
		predictions = append(predictions, avg, Average(med, avg))
	}
	for i, p := range predictions {
		d := Minus(v, p)
		VMOVDQU(Xor(Plus(d, d), Apply(VPCMPGTB, zero, d)), Mem{Base: out[i], Index: x, Scale: 1})
	}
	ADDQ(U8(32), x)
	CMPQ(x, n)
	JLT(LabelRef("samples"))
	for _, p := range out {
		VMOVDQU(zero, Mem{Base: p, Index: n, Scale: 1})
	}
	VZEROUPPER()
	RET()
}
