package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
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
func predict(a, b, c, zero vec) vec {
	hi, lo := maximum(a, c), minimum(a, c)
	underHi := above(hi, b)
	hasZero := equal(lo, zero)
	// Where b < x ≤ 3b, or < 3b: b is more than the excess of x over 2b, or not less.
	limit := minus(b, equal(a, zero))
	keeps := and(hasZero, minimum(underHi, above(limit, above(underHi, b))))
	overLo := above(b, or(lo, and(hasZero, hi)))

	toC := or(above(b, c), above(c, b))
	far, near := maximum(overLo, underHi), minimum(overLo, underHi)
	keeps = or(keeps, and(equal(toC, near), above(near, minus(far, near))))
	step := and(far, equal(keeps, zero))
	// Down to the lower one or up to the higher one.
	down := equal(far, overLo)
	return plus(b, minus(xor(step, down), down))
}

// predictions is for tests alone: all of predict, which rows could not reach.
func predictions() {
	function("predictAVX2", "func(dst, a, b, c *[32]byte)", "predicts 32 samples.")
	dst, a, b, c := param("dst"), param("a"), param("b"), param("c")
	v := predict(load(Mem{Base: a}), load(Mem{Base: b}), load(Mem{Base: c}), zeros())
	VMOVDQU(v, Mem{Base: dst})
	VZEROUPPER()
	RET()
}
