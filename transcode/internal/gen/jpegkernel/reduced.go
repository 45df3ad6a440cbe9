package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// idct4 transforms a block to 4×4 samples, writes them and returns.
func (t *tables) idct4(dst, stride reg.Register, p block) {
	q01, q23 := t.pass4(low16(Zeros(), p[0]), low16(p[1], p[3]), high16(p[0], p[1]), high16(p[2], p[3]),
		t.half14, constBits-passBits+1)
	// Columns 0 and 1, 2 and 3 in the lower halves, 4 and 5, 6 and 7 in the upper
	// ones.
	c01, c23 := turn4(q01, q23)
	t.rows4(dst, stride, c01, c23, Halves(uppers, c01, c01), Halves(uppers, c23, c23))
}

// rows4 is the second pass to 4×4 samples, on the lower halves of registers of two
// columns each.
func (t *tables) rows4(dst, stride reg.Register, c01, c23, c45, c67 Vec) {
	q01, q23 := t.pass4(low16(Zeros(), c01), low16(c23, c67), high16(c01, c23), high16(c45, c67),
		t.half24, constBits+passBits+4)
	out := Apply(VPACKSSWB, q01, q23)
	out = Shuffle(out, t.turn)
	VPADDB(t.centre, out, out)
	x := out.AsX()
	stride3 := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	VMOVD(x, Mem{Base: dst})
	VPEXTRD(U8(1), x, Mem{Base: dst, Index: stride, Scale: 1})
	VPEXTRD(U8(2), x, Mem{Base: dst, Index: stride, Scale: 2})
	VPEXTRD(U8(3), x, Mem{Base: dst, Index: stride3, Scale: 1})
	VZEROUPPER()
	RET()
}

// pass4 is butterflies4 of package kernel on pairs of inputs; that of i0 has zeros
// in its lower parts.
func (t *tables) pass4(i0, i26, i13, i57 Vec, half Mem, n int) (q01, q23 Vec) {
	e := add32(shift(VPSRAD, i0, 16-constBits-1), half)
	f := dot(i26, t.f26)
	a0, a1 := add32(e, f), sub32(e, f)
	b0 := add32(dot(i13, t.p13), dot(i57, t.p57))
	b1 := add32(dot(i13, t.q13), dot(i57, t.q57))
	descale := func(v Vec) Vec { return shift(VPSRAD, v, n) }
	return pack32(descale(add32(a0, b0)), descale(add32(a1, b1))),
		pack32(descale(sub32(a1, b1)), descale(sub32(a0, b0)))
}

// idct2 transforms a block to 2×2 samples, writes them and returns.
func (t *tables) idct2(dst, stride reg.Register, p block) {
	odd := add32(dot(high16(p[0], p[1]), t.r13), dot(high16(p[2], p[3]), t.r57))
	even := add32(shift(VPSRAD, low16(Zeros(), p[0]), 16-constBits-2), t.half12)
	descale := func(v Vec) Vec { return shift(VPSRAD, v, constBits-passBits+2) }
	upper, lower := descale(add32(even, odd)), descale(sub32(even, odd))
	// Products of both rows, two of each in either half.
	odd = dot(pack32(upper, lower), t.row2)
	odd = add32(odd, Halves(uppers, odd, odd))
	odd = add32(odd, shift(VPSRLQ, odd, 32))
	odd = shift(VPSHUFD, odd, 0b1000)
	even = add32(shift(VPSLLD, low32(upper, lower), constBits+2), t.half22)
	descale = func(v Vec) Vec { return shift(VPSRAD, v, constBits+passBits+5) }
	out := low32(descale(add32(even, odd)), descale(sub32(even, odd)))
	out = pack32(out, out)
	out = Apply(VPACKSSWB, out, out)
	VPADDB(t.centre, out, out)
	VPEXTRW(U8(0), out.AsX(), Mem{Base: dst})
	VPEXTRW(U8(1), out.AsX(), Mem{Base: dst, Index: stride, Scale: 1})
	VZEROUPPER()
	RET()
}
