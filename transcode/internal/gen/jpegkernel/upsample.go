package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// step is the number of samples of a row that go into one turn of a loop.
const step = 32

// loop calls turn for n samples, step at a time; the last turn may repeat some of
// what was done before. n must be at least step. turn finds in i the number of the
// first sample.
func loop(n reg.Register, turn func(i reg.Register)) {
	i, last := GP64(), GP64()
	XORQ(i, i)
	MOVQ(n, last)
	SUBQ(U8(step), last)
	Label("turn")
	turn(i)
	CMPQ(i, last)
	JE(LabelRef("done"))
	ADDQ(U8(step), i)
	CMPQ(i, last)
	JLE(LabelRef("turn"))
	MOVQ(last, i)
	JMP(LabelRef("turn"))
	Label("done")
	VZEROUPPER()
	RET()
}

// blend returns 3/4 of a and 1/4 of b, times four, as words: those of bytes 0 to 7
// of each half, and those of bytes 8 to 15.
func blend(a, b Vec, weights Op) (lo, hi Vec) {
	return Apply(VPMADDUBSW, low8(a, b), weights), Apply(VPMADDUBSW, high8(a, b), weights)
}

// store writes words, even and odd ones in turn, as bytes: lo has those of bytes 0
// to 15 of each half of the input, hi those of 16 to 31.
func store(dst reg.Register, i reg.Register, evenLo, oddLo, evenHi, oddHi Vec) {
	VPSLLW(U8(8), oddLo, oddLo)
	VPSLLW(U8(8), oddHi, oddHi)
	lo, hi := Or(evenLo, oddLo), Or(evenHi, oddHi)
	m := Mem{Base: dst, Index: i, Scale: 2}
	VMOVDQU(lo.AsX(), m)
	VMOVDQU(hi.AsX(), m.Offset(16))
	VEXTRACTI128(U8(1), lo, m.Offset(32))
	VEXTRACTI128(U8(1), hi, m.Offset(48))
}

func upsampling() {
	weights := bytes("weights", 3, 1)
	one, two := words("one", 1), words("two", 2)
	seven, eight := words("seven", 7), words("eight", 8)

	// The ends of a row are left to the caller: these write 2*n samples from dst
	// on, and read one sample more than n on either side.
	Kernel("upsampleH2V1AVX2", "func(dst, src *byte, n int)", "doubles n samples, at least 32, which have neighbours on both sides.")
	dst, src := Arg("dst"), Arg("src")
	w := Loaded(weights)
	loop(Arg("n"), func(i reg.Register) {
		m := Mem{Base: src, Index: i, Scale: 1}
		this := Loaded(m)
		evenLo, evenHi := blend(this, Loaded(m.Offset(-1)), w)
		oddLo, oddHi := blend(this, Loaded(m.Offset(1)), w)
		for _, v := range []Vec{evenLo, evenHi} {
			VPADDW(one, v, v)
			VPSRLW(U8(2), v, v)
		}
		for _, v := range []Vec{oddLo, oddHi} {
			VPADDW(two, v, v)
			VPSRLW(U8(2), v, v)
		}
		store(dst, i, evenLo, oddLo, evenHi, oddHi)
	})

	Kernel("upsampleH2V2AVX2", "func(dst, near, far *byte, n int)", "doubles n samples, at least 32, which have neighbours on both sides.")
	dst = Arg("dst")
	near, far := Arg("near"), Arg("far")
	w = Loaded(weights)
	loop(Arg("n"), func(i reg.Register) {
		m, f := Mem{Base: near, Index: i, Scale: 1}, Mem{Base: far, Index: i, Scale: 1}
		lastLo, lastHi := blend(Loaded(m.Offset(-1)), Loaded(f.Offset(-1)), w)
		thisLo, thisHi := blend(Loaded(m), Loaded(f), w)
		nextLo, nextHi := blend(Loaded(m.Offset(1)), Loaded(f.Offset(1)), w)
		mix := func(this, other Vec, bias Mem) Vec {
			v := add16(add16(this, other), bias)
			VPSRLW(U8(4), v, v)
			return v
		}
		thisLo, thisHi = add16(thisLo, add16(thisLo, thisLo)), add16(thisHi, add16(thisHi, thisHi))
		store(dst, i, mix(thisLo, lastLo, eight), mix(thisLo, nextLo, seven),
			mix(thisHi, lastHi, eight), mix(thisHi, nextHi, seven))
	})
}
