package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// spread holds masks that spread 16 bytes of each half over 48, three bytes apart:
// spread[c][o] is for byte c of each three, in the o-th 16 of the 48.
type spread [3][3]Mem

func makeSpread() (s spread) {
	for c := range s {
		for o := range s[c] {
			var v [16]int
			for i := range v {
				v[i] = none
				if at := 16*o + i; at%3 == c {
					v[i] = at / 3
				}
			}
			s[c][o] = bytes(fmt.Sprintf("spread%d%d", c, o), v[:]...)
		}
	}
	return s
}

// store3 writes 32 pixels of three bytes from sample i on.
func store3(dst, i reg.Register, out [3]Vec) {
	m := GP64()
	LEAQ(Mem{Base: i, Index: i, Scale: 2}, m)
	for o, v := range out {
		VMOVDQU(v.AsX(), Mem{Base: dst, Index: m, Scale: 1, Disp: 16 * o})
	}
	for o, v := range out {
		VEXTRACTI128(U8(1), v, Mem{Base: dst, Index: m, Scale: 1, Disp: 48 + 16*o})
	}
}

// weave makes pixels of three registers of 32 samples.
func (s *spread) weave(r, g, b Vec) (out [3]Vec) {
	for o := range out {
		out[o] = Or(Or(Shuffle(r, s[0][o]), Shuffle(g, s[1][o])), Shuffle(b, s[2][o]))
	}
	return out
}

// conversion holds the constants from YCbCr to RGB.
type conversion struct {
	sign, toR, toB, toG, half Mem
}

func makeConversion() *conversion {
	return &conversion{
		sign: bytes("yccSign", 128),
		// VPMULHRSW of twice a difference of -128 to 127 with these rounds as the
		// 16-bit factors of package kernel do.
		toR:  words("yccToR", 22971),
		toB:  words("yccToB", 29033),
		toG:  words("yccToG", -22554/2, -46802/2),
		half: dwords("yccHalf", 1<<15),
	}
}

// rgb converts 32 samples of each component.
func (c *conversion) rgb(y, cb, cr Vec) (r, g, b Vec) {
	VPXOR(c.sign, cb, cb)
	VPXOR(c.sign, cr, cr)
	z := Zeros()
	// A byte in the upper part of a word, and down again but for one bit: twice
	// the signed difference.
	double := func(v Vec) Vec { return shift(VPSRAW, v, 7) }
	one := func(y, u, v Vec) (r, g, b Vec) {
		r = add16(y, Apply(VPMULHRSW, v, c.toR))
		b = add16(y, Apply(VPMULHRSW, u, c.toB))
		lo, hi := dot(low16(u, v), c.toG), dot(high16(u, v), c.toG)
		lo, hi = add32(lo, c.half), add32(hi, c.half)
		lo, hi = shift(VPSRAD, lo, 16), shift(VPSRAD, hi, 16)
		return r, add16(y, pack32(lo, hi)), b
	}
	r0, g0, b0 := one(low8(y, z), double(low8(z, cb)), double(low8(z, cr)))
	r1, g1, b1 := one(high8(y, z), double(high8(z, cb)), double(high8(z, cr)))
	return Apply(VPACKUSWB, r0, r1), Apply(VPACKUSWB, g0, g1), Apply(VPACKUSWB, b0, b1)
}

func colours() {
	s, c := makeSpread(), makeConversion()
	at := func(base, i reg.Register) Vec { return Loaded(Mem{Base: base, Index: i, Scale: 1}) }

	Kernel("yccToRGBAVX2", "func(dst, y, cb, cr *byte, n int)", "converts n pixels, at least 32.")
	dst, y, cb, cr := Arg("dst"), Arg("y"), Arg("cb"), Arg("cr")
	loop(Arg("n"), func(i reg.Register) {
		store3(dst, i, s.weave(c.rgb(at(y, i), at(cb, i), at(cr, i))))
	})

	Kernel("greyToRGBAVX2", "func(dst, y *byte, n int)", "converts n pixels, at least 32.")
	dst, y = Arg("dst"), Arg("y")
	// The same sample for all three: none is less than any index.
	var masks [3]Vec
	for o := range masks {
		masks[o] = YMM()
		VMOVDQU(s[0][o], masks[o])
		VPMAXSB(s[1][o], masks[o], masks[o])
		VPMAXSB(s[2][o], masks[o], masks[o])
	}
	loop(Arg("n"), func(i reg.Register) {
		v := at(y, i)
		store3(dst, i, [3]Vec{Shuffle(v, masks[0]), Shuffle(v, masks[1]), Shuffle(v, masks[2])})
	})
}
