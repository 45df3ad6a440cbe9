package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// predict is predict of package v1 for 32 samples. Bytes have no room for the
// distances that it compares, but all follow from these:
//
//	far  the distance of b from the farther one of a and c
//	near its distance from the nearer one if b lies between them, 0 otherwise
//
// Without zeros, the prediction is the farther one, or b where near is more than half
// of far and c is not farther than a. With a zero, x being the other value, it is b
// if b ≤ x ≤ 3b, and otherwise x; x = 3b counts only if a is the zero. To make x the
// farther one, it takes the place of the zero.
func predict(a, b, c, zero Vec) Vec {
	hi, lo := Maximum(a, c), Minimum(a, c)
	underHi := above(hi, b)
	hasZero := Equal(lo, zero)
	// Where b < x ≤ 3b, or < 3b: b is more than the excess of x over 2b, or not less.
	limit := Minus(b, Equal(a, zero))
	keeps := And(hasZero, Minimum(underHi, above(limit, above(underHi, b))))
	overLo := above(b, Or(lo, And(hasZero, hi)))

	toC := Or(above(b, c), above(c, b))
	far, near := Maximum(overLo, underHi), Minimum(overLo, underHi)
	keeps = Or(keeps, And(Equal(toC, near), above(near, Minus(far, near))))
	step := And(far, Equal(keeps, zero))
	// Down to the lower one or up to the higher one.
	down := Equal(far, overLo)
	return Plus(b, Minus(Xor(step, down), down))
}

// predictions is for tests alone: all of predict, which rows could not reach.
func predictions() {
	Kernel("predictAVX2", "func(dst, a, b, c *[32]byte)", "predicts 32 samples.")
	dst, a, b, c := Arg("dst"), Arg("a"), Arg("b"), Arg("c")
	v := predict(Loaded(Mem{Base: a}), Loaded(Mem{Base: b}), Loaded(Mem{Base: c}), Zeros())
	VMOVDQU(v, Mem{Base: dst})
	VZEROUPPER()
	RET()
}
