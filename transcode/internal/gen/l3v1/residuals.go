package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// residuals is for the encoder.
func residuals(t constants) {
	Kernel("residualsAVX2", "func(dst *byte, ends *[255][2]int8, src *byte, w, h int)",
		`computes the residuals of a patch in a plane, of which src is the first sample, at least 32 in a row,
and the least and the greatest of each row as signed bytes. dst is a plane too.`)
	dst, ends, src, w, h := Arg("dst"), Arg("ends"), Arg("src"), Arg("w"), Arg("h")
	zero := Zeros()
	SUBQ(U8(32), w)
	Label("row")
	lo, hi := YMM(), YMM()
	VPCMPEQB(hi, hi, hi)
	VPSLLW(U8(15), hi, hi)
	VPSRLW(U8(8), hi, hi)
	VPACKUSWB(hi, hi, hi) // -128
	VPCMPEQB(lo, lo, lo)
	VPXOR(hi, lo, lo) // 127
	x := GP64()
	XORQ(x, x)
	Label("block")
	at := func(d int) Vec { return Loaded(Mem{Base: src, Index: x, Scale: 1, Disp: d}) }
	v := Minus(at(0), predict(at(-1-stride), at(-stride), at(1-stride), zero))
	VMOVDQU(v, Mem{Base: dst, Index: x, Scale: 1})
	VPMINSB(v, lo, lo)
	VPMAXSB(v, hi, hi)
	// The last block of a row overlaps the one before if it has to.
	CMPQ(x, w)
	JE(LabelRef("reduce"))
	ADDQ(U8(32), x)
	CMPQ(x, w)
	CMOVQGT(w, x)
	JMP(LabelRef("block"))
	Label("reduce")
	for i, f := range []func(...Op){VPMINSB, VPMAXSB} {
		v := []Vec{lo, hi}[i]
		half := XMM()
		VEXTRACTI128(U8(1), v, half)
		d := v.AsX()
		f(half, d, d)
		for _, n := range []int{8, 4, 2, 1} {
			VPSRLDQ(U8(n), d, half)
			f(half, d, d)
		}
		VPEXTRB(U8(0), d, Mem{Base: ends, Disp: i})
	}
	ADDQ(U8(2), ends)
	ADDQ(U32(stride), src)
	ADDQ(U32(stride), dst)
	DECQ(h)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
