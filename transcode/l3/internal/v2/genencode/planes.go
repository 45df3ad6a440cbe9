package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
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
			take[c][o] = constant(fmt.Sprintf("take%d%d", c, o), m)
		}
	}
	function("deinterleave3AVX2", "func(a, b, c, src *byte, n int)",
		`takes n pixels of 3 samples apart, at least 16.`)
	out := []reg.GPVirtual{param("a"), param("b"), param("c")}
	src, n, i, at := param("src"), param("n"), GP64(), GP64()
	overlapped(n, i, func() {
		LEAQ(Mem{Base: i, Index: i, Scale: 2}, at)
		var in [3]vec
		for o := range in {
			in[o] = XMM()
			VMOVDQU(Mem{Base: src, Index: at, Scale: 1, Disp: 16 * o}, in[o])
		}
		for c := range out {
			d := half(VPSHUFB, in[0], take[c][0])
			d = half(three(VPOR), d, half(VPSHUFB, in[1], take[c][1]))
			d = half(three(VPOR), d, half(VPSHUFB, in[2], take[c][2]))
			VMOVDQU(d, Mem{Base: out[c], Index: i, Scale: 1})
		}
	})
}

func deinterleave4() {
	m := make([]byte, 16)
	for i := range m {
		m[i] = byte(i%4*4 + i/4)
	}
	sorted := constant("sorted", m)
	function("deinterleave4AVX2", "func(a, b, c, d, src *byte, n int)",
		`takes n pixels of 4 samples apart, at least 16.`)
	out := []reg.GPVirtual{param("a"), param("b"), param("c"), param("d")}
	src, n, i, at := param("src"), param("n"), GP64(), GP64()
	overlapped(n, i, func() {
		MOVQ(i, at)
		SHLQ(U8(2), at)
		// Four pixels each, sorted by channel: 4 bytes of each.
		var in [4]vec
		for o := range in {
			in[o] = XMM()
			VMOVDQU(Mem{Base: src, Index: at, Scale: 1, Disp: 16 * o}, in[o])
			VPSHUFB(sorted, in[o], in[o])
		}
		ab, cd := half(VPUNPCKLDQ, in[0], in[1]), half(VPUNPCKHDQ, in[0], in[1])
		ab2, cd2 := half(VPUNPCKLDQ, in[2], in[3]), half(VPUNPCKHDQ, in[2], in[3])
		for c, d := range []vec{
			half(VPUNPCKLQDQ, ab, ab2), half(VPUNPCKHQDQ, ab, ab2),
			half(VPUNPCKLQDQ, cd, cd2), half(VPUNPCKHQDQ, cd, cd2),
		} {
			VMOVDQU(d, Mem{Base: out[c], Index: i, Scale: 1})
		}
	})
}

func colours() {
	middle := repeated("middle", 0x80)
	function("coloursAVX2", "func(green *byte, size, n int)",
		`computes a row of the differences of colours in planes of that size; green is in the first of them. It
takes 32 samples at a time, and so up to 31 more than n.`)
	green, size, n := param("green"), param("size"), param("n")
	// In the order of the planes: green, three differences, red, blue.
	size3 := GP64()
	LEAQ(Mem{Base: size, Index: size, Scale: 2}, size3)
	red := GP64()
	LEAQ(Mem{Base: green, Index: size, Scale: 4}, red)
	mid := load(middle)
	Label("samples")
	g, r, b := load(Mem{Base: green}), load(Mem{Base: red}), load(Mem{Base: red, Index: size, Scale: 1})
	// Adding 128 is the same as turning the highest bit over.
	VMOVDQU(xor(minus(r, g), mid), Mem{Base: green, Index: size, Scale: 1})
	VMOVDQU(xor(minus(b, g), mid), Mem{Base: green, Index: size, Scale: 2})
	VMOVDQU(xor(minus(b, average(r, g)), mid), Mem{Base: green, Index: size3, Scale: 1})
	ADDQ(U8(32), green)
	ADDQ(U8(32), red)
	SUBQ(U8(32), n)
	JG(LabelRef("samples"))
	VZEROUPPER()
	RET()
}

func residuals() {
	const doc = " It reads up to 31 more\nsamples, and makes the 32 residuals after the row 0."
	function("residualsAVX2", "func(med, avg, mix, at, top *byte, n int)",
		"computes the residuals of a row of n samples, zigzag-coded, for each predictor."+doc)
	eachResidual(param("med"), param("avg"), param("mix"))
	function("residualsMEDAVX2", "func(med, at, top *byte, n int)",
		"computes the residuals of a row of n samples, zigzag-coded, for MED."+doc)
	eachResidual(param("med"))
}

// eachResidual computes those of as many predictors as there is something to write to.
func eachResidual(out ...reg.GPVirtual) {
	at, top, n, x := param("at"), param("top"), param("n"), GP64()
	zero := zeros()
	XORQ(x, x)
	Label("samples")
	from := func(p reg.GPVirtual, d int) vec { return load(Mem{Base: p, Index: x, Scale: 1, Disp: d}) }
	v, l, t, tl := from(at, 0), from(at, -1), from(top, 0), from(top, -1)
	most, least := maximum(l, t), minimum(l, t)
	med := minus(plus(most, least), minimum(maximum(tl, least), most))
	predictions := []vec{med}
	if len(out) > 1 {
		avg := average(l, t)
		predictions = append(predictions, avg, average(med, avg))
	}
	for i, p := range predictions {
		d := minus(v, p)
		VMOVDQU(xor(plus(d, d), op(VPCMPGTB, zero, d)), Mem{Base: out[i], Index: x, Scale: 1})
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
