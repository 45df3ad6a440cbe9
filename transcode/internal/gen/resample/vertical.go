package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// vertical writes the kernel that makes a row of several rows.
func vertical() {
	Kernel("vertical", "func(dst, src *byte, stride, n int, entry *uint32, pairs int)",
		`makes n bytes, at least 32, of so many pairs of rows, the first of which is src's. Rows are
stride bytes apart.`)
	dst, src, stride := Arg("dst"), Arg("src"), Arg("stride")
	n, entry, pairs := Arg("n"), Arg("entry"), Arg("pairs")
	ADDQ(U8(4), entry)
	zero := Zeros()
	x, last := GP64(), GP64()
	XORQ(x, x)
	LEAQ(Mem{Base: n, Disp: -columns}, last)

	Label("columns")
	var low [4]Vec  // of columns 0 to 3, 4 to 7, 8 to 11, and 12 to 15 of each half
	var high [2]Vec // of columns 0 to 7, and 8 to 15
	for i := range low {
		low[i] = Loaded(rounding)
	}
	for i := range high {
		high[i] = Zeros()
	}
	p, weights, left := GP64(), GP64(), GP64()
	LEAQ(Mem{Base: src, Index: x, Scale: 1}, p)
	MOVQ(entry, weights)
	MOVQ(pairs, left)
	Label("pair")
	above, below := Loaded(Mem{Base: p}), Loaded(Mem{Base: p, Index: stride, Scale: 1})
	LEAQ(Mem{Base: p, Index: stride, Scale: 2}, p)
	lows := everywhere(Mem{Base: weights})
	highs := everywhere(Mem{Base: weights, Disp: 4})
	VPACKSSWB(highs, highs, highs)
	ADDQ(U8(8), weights)
	for i, bytes := range [2]Vec{Apply(VPUNPCKLBW, above, below), Apply(VPUNPCKHBW, above, below)} {
		VPADDW(Apply(VPMADDUBSW, bytes, highs), high[i], high[i])
		for j, words := range [2]Vec{Apply(VPUNPCKLBW, bytes, zero), Apply(VPUNPCKHBW, bytes, zero)} {
			sum := low[2*i+j]
			VPADDD(dot(words, lows), sum, sum)
		}
	}
	DECQ(left)
	JNZ(LabelRef("pair"))
	for i, v := range high {
		for j, upper := range [2]Vec{Apply(VPUNPCKLWD, zero, v), Apply(VPUNPCKHWD, zero, v)} {
			sum := low[2*i+j]
			VPADDD(upper, sum, sum)
			VPSRAD(U8(precision), sum, sum)
		}
	}
	VMOVDQU(Apply(VPACKUSWB, Apply(VPACKSSDW, low[0], low[1]), Apply(VPACKSSDW, low[2], low[3])), Mem{Base: dst, Index: x, Scale: 1})

	// The last turn may repeat some of what was done before.
	CMPQ(x, last)
	JE(LabelRef("done"))
	ADDQ(U8(columns), x)
	CMPQ(x, last)
	JLE(LabelRef("columns"))
	MOVQ(last, x)
	JMP(LabelRef("columns"))
	Label("done")
	VZEROUPPER()
	RET()
}
