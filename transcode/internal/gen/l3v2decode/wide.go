package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// ofWide is a register of the state, see wideState of package v2.
func ofWide(state reg.Register, field string, i int) Mem {
	c := Struct("state", state).Field(field)
	if field == "left" || field == "above" {
		c = c.Index(i)
	}
	return Addr(c)
}

// wide has the constants of wavefronts of 16 bits.
type wide struct{ onehot, low15, one, bytesOf Mem }

func newWide(onehot Mem) wide {
	return wide{
		onehot:  onehot,
		low15:   Data32("low15", func(i int) byte { return []byte{0xff, 0x7f}[i%2] }),
		one:     Data32("lowestWord", func(i int) byte { return byte(1 - i%2) }),
		bytesOf: Data32("lowBytesOfWords", func(i int) byte { return []byte{0xff, 0}[i%2] }),
	}
}

// wavefront is for one channel of 16 bits. It has two chains of instructions, one for each
// half of the lanes, and always looks at edges. med says that the predictor is MED.
func (w wide) wavefront(med bool) {
	name, doc := "wavefrontWideAVX2", `makes samples of the residuals of a channel of 16 bits, whose lower bytes are at z
and whose upper ones follow. next is the distance to the next 8 steps. The other
parameters are those of wavefront1EdgeAVX2.`
	if med {
		name, doc = "wavefrontWideMEDAVX2", "is wavefrontWideAVX2 for a channel predicted by MED."
	}
	Kernel(name, "func(z *byte, next int, state *wideState, carry *byte, channel int, band, x, top int)", doc)
	z, next, state, carry, channel := Arg("z"), Arg("next"), Arg("state"), Arg("carry"), Arg("channel")
	x, band, top, masks := Arg("x"), Arg("band"), Arg("top"), GP64()
	LEAQ(w.onehot.Offset(32), masks)
	SUBQ(U32(columnsLen), next)
	var left, aboveLeft [2]Vec
	for i := range 2 {
		left[i] = Loaded(ofWide(state, "left", i))
		aboveLeft[i] = Loaded(ofWide(state, "above", i))
	}
	half := GP64()
	MOVQ(U32(2), half)
	Label("half")
	step := GP64()
	MOVQ(U32(blockSteps), step)
	Label("step")
	first, highest := edges(x, band, top)
	low, high := XMM(), XMM()
	VPBROADCASTB(Mem{Base: carry}, low)
	VPBROADCASTB(Mem{Base: carry, Index: channel, Scale: 1}, high)
	VPUNPCKLBW(high, low, low)
	before := YMM()
	VINSERTI128(U8(1), low, Zeros(), before)
	old := left[0]
	// The upper lanes first: they need what the lower ones were before.
	var out [2]Vec
	for i, l := range []Vec{left[0], left[1]} {
		t := YMM()
		VPALIGNR(U8(14), Halves(0x21, before, l), l, t)
		before = old
		m := YMM()
		VPMOVSXBW(Mem{Base: masks, Index: highest, Scale: 1, Disp: 16 * i}, m)
		VPBLENDVB(m, l, t, t)
		m = YMM()
		VPMOVSXBW(Mem{Base: masks, Index: first, Scale: 1, Disp: 16 * i}, m)
		k := YMM()
		VPBLENDVB(m, t, l, k)

		r, rHigh := YMM(), YMM()
		VPMOVZXBW(Mem{Base: z, Disp: 16 * i}, r)
		VPMOVZXBW(Mem{Base: z, Disp: columnsLen + 16*i}, rHigh)
		VPSLLW(U8(8), rHigh, rHigh)
		r = Or(r, rHigh)
		sign := Apply(VPSUBW, Zeros(), And(r, w.one))
		VPSRLW(U8(1), r, r)
		r = Xor(And(r, w.low15), sign)
		mx, mn := Apply(VPMAXUW, k, t), Apply(VPMINUW, k, t)
		sum, clamped := Apply(VPADDW, mx, mn), Apply(VPMINUW, Apply(VPMAXUW, aboveLeft[i], mn), mx)
		if med {
			out[i] = Apply(VPSUBW, Apply(VPADDW, sum, r), clamped)
		} else {
			median, avg := Apply(VPSUBW, sum, clamped), Apply(VPAVGW, k, t)
			d := Xor(median, avg)
			u := Xor(median, And(d, ofWide(state, "mean", 0)))
			v := Xor(median, And(d, ofWide(state, "notMED", 0)))
			out[i] = Apply(VPADDW, Apply(VPAVGW, u, v), r)
		}
		VMOVDQA(t, aboveLeft[i])
	}
	for i := range 2 {
		VMOVDQA(out[i], left[i])
	}
	lowBytes := Apply(VPACKUSWB, And(out[0], w.bytesOf), And(out[1], w.bytesOf))
	VPERMQ(U8(0xd8), lowBytes, lowBytes)
	VMOVDQU(lowBytes, Mem{Base: z})
	for i := range 2 {
		VPSRLW(U8(8), out[i], out[i])
	}
	highBytes := Apply(VPACKUSWB, out[0], out[1])
	VPERMQ(U8(0xd8), highBytes, highBytes)
	VMOVDQU(highBytes, Mem{Base: z, Disp: columnsLen})
	ADDQ(U8(lanes), z)
	INCQ(carry)
	DECQ(step)
	JNZ(LabelRef("step"))
	ADDQ(next, z)
	DECQ(half)
	JNZ(LabelRef("half"))
	for i := range 2 {
		VMOVDQU(left[i], ofWide(state, "left", i))
		VMOVDQU(aboveLeft[i], ofWide(state, "above", i))
	}
	VZEROUPPER()
	RET()
}
