package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// block is the 64 values of a block in four pair registers: rows 0 and 1, 2 and
// 3, and so on.
type block [4]Vec

func transforms() {
	t, z := makeTables(), makeZigzag()

	Kernel("block8AVX2", "func(dst *byte, stride int, b *[64]int16, nonzero uint64, quant *[64]uint16)", "is Block8.")
	dst, stride := Arg("dst"), Arg("stride")
	p := z.gather()
	testOutside(0)
	p[0] = wrap(p[0])
	t.idct8(dst, stride, p)

	Kernel("block4AVX2", "func(dst *byte, stride int, b *[64]int16, nonzero uint64, quant *[64]uint16)", "is Block4.")
	dst, stride = Arg("dst"), Arg("stride")
	p = z.gather()
	testOutside(0, 4)
	p[0] = wrap(p[0])
	t.idct4(dst, stride, p)

	Kernel("block2AVX2", "func(dst *byte, stride int, b *[64]int16, quant *[64]uint16)", "is Block2.")
	dst, stride = Arg("dst"), Arg("stride")
	t.idct2(dst, stride, z.gather())
}

// wrap keeps only 14 bits of rows 0 and 1, with sign, where the comparison before
// found nothing but row 0. The first pass gives two bits more to a row 0 that is
// alone, and saturates it at 16 bits; libjpeg-turbo has a short cut there which
// wraps around.
func wrap(rows Vec) Vec {
	alone, count := GP64(), XMM()
	SETEQ(alone.As8())
	MOVBLZX(alone.As8(), alone.As32())
	ADDL(alone.As32(), alone.As32())
	VMOVQ(alone, count)
	v := YMM()
	VPSLLW(count, rows, v)
	VPSRAW(count, v, v)
	return v
}

// idct8 transforms a block, writes the samples and returns from the function.
func (t *tables) idct8(dst, stride reg.Register, p block) {
	p = t.pass8(p, t.round1)
	p = transpose(p)
	t.rows8(dst, stride, p)
}

// rows8 is the second pass, on a transposed block.
func (t *tables) rows8(dst, stride reg.Register, p block) {
	p = t.pass8(p, t.round2)
	// Registers of four columns of four bytes in each half: in the lower one from
	// rows 0 to 3, in the upper one from rows 4 to 7.
	left, right := Apply(VPACKSSWB, p[0], p[1]), Apply(VPACKSSWB, p[2], p[3])
	left, right = Shuffle(left, t.turn), Shuffle(right, t.turn)
	r0145, r2367 := low32(left, right), high32(left, right)
	VPADDB(t.centre, r0145, r0145)
	VPADDB(t.centre, r2367, r2367)
	r45, r67 := XMM(), XMM()
	VEXTRACTI128(U8(1), r0145, r45)
	VEXTRACTI128(U8(1), r2367, r67)
	stride3 := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	for i, x := range []reg.Register{r0145.AsX(), r2367.AsX(), r45, r67} {
		if i == 2 {
			LEAQ(Mem{Base: dst, Index: stride, Scale: 4}, dst)
		}
		if i%2 == 0 {
			VMOVQ(x, Mem{Base: dst})
			VMOVHPS(x, Mem{Base: dst, Index: stride, Scale: 1})
		} else {
			VMOVQ(x, Mem{Base: dst, Index: stride, Scale: 2})
			VMOVHPS(x, Mem{Base: dst, Index: stride3, Scale: 1})
		}
	}
	VZEROUPPER()
	RET()
}

// pass8 is one pass over all columns. Its sums are those of butterflies in package
// kernel, with pairs of products added up by one instruction.
func (t *tables) pass8(p block, r rounding) block {
	b26 := low16(p[1], p[3])
	e2, e3 := dot(b26, t.e2), dot(b26, t.e3)
	// Rows 0 and 4 in the low quarters, 1 and 5 in the others.
	sum, difference := add16(p[0], p[2]), sub16(p[0], p[2])
	e0, e1 := dot(low16(sum, r.one), r.scale), dot(low16(difference, r.one), r.scale)
	a0, a3 := add32(e0, e3), sub32(e0, e3)
	a1, a2 := add32(e1, e2), sub32(e1, e2)

	b34 := high16(add16(p[1], p[3]), sum)
	z3, z4 := dot(b34, t.z3), dot(b34, t.z4)
	b71, b53 := high16(p[3], p[0]), high16(p[2], p[1])
	b0, b3 := add32(dot(b71, t.b0), z3), add32(dot(b71, t.b3), z4)
	b1, b2 := add32(dot(b53, t.b1), z4), add32(dot(b53, t.b2), z3)

	descale := func(v Vec) Vec { return shift(VPSRAD, v, r.bits) }
	return block{
		pack32(descale(add32(a0, b3)), descale(add32(a1, b2))),
		pack32(descale(add32(a2, b1)), descale(add32(a3, b0))),
		pack32(descale(sub32(a3, b0)), descale(sub32(a2, b1))),
		pack32(descale(sub32(a1, b2)), descale(sub32(a0, b3))),
	}
}

// turn4 transposes the 4×4 values in each half of two pair registers.
func turn4(a, b Vec) (c, d Vec) {
	even, odd := low16(a, b), high16(a, b)
	return low16(even, odd), high16(even, odd)
}

func transpose(p block) block {
	a01, a23 := turn4(p[0], p[1])
	b01, b23 := turn4(p[2], p[3])
	return block{
		Halves(lowers, a01, b01), Halves(lowers, a23, b23),
		Halves(uppers, a01, b01), Halves(uppers, a23, b23),
	}
}
