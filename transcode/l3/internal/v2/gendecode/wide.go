package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Of the state of waveWide: 32 bytes each.
const (
	wideLeft   = 0 // two registers, of 16 lanes each
	wideAbove  = 64
	wideMean   = 128
	wideNotMED = 160
)

// wide has the constants of waves of 16 bits.
type wide struct{ onehot, low15, one, bytesOf Mem }

func newWide(onehot Mem) wide {
	return wide{
		onehot:  onehot,
		low15:   constants("low15", func(i int) byte { return []byte{0xff, 0x7f}[i%2] }),
		one:     constants("lowestWord", func(i int) byte { return byte(1 - i%2) }),
		bytesOf: constants("lowBytesOfWords", func(i int) byte { return []byte{0xff, 0}[i%2] }),
	}
}

// wave is for one channel of 16 bits. It has two chains of instructions, one for each
// half of the lanes, and always looks at edges. med says that the predictor is MED.
func (w wide) wave(med bool) {
	name, doc := "waveWideAVX2", `makes samples of the residuals of a channel of 16 bits, whose lower bytes are at z
and whose upper ones follow. next is the distance to the next 8 steps. The other
parameters are those of wave1EdgeAVX2.`
	if med {
		name, doc = "waveWideMEDAVX2", "is waveWideAVX2 for a channel predicted by MED."
	}
	function(name, "func(z *byte, next int, state *[6][32]byte, carry *byte, channel int, band, x, top int)", doc)
	z, next, state, carry, channel := param("z"), param("next"), param("state"), param("carry"), param("channel")
	x, band, top, masks := param("x"), param("band"), param("top"), GP64()
	LEAQ(w.onehot.Offset(32), masks)
	SUBQ(U32(columnsLen), next)
	var left, aboveLeft [2]vec
	for i := range 2 {
		left[i] = load(Mem{Base: state, Disp: wideLeft + i*32})
		aboveLeft[i] = load(Mem{Base: state, Disp: wideAbove + i*32})
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
	VINSERTI128(U8(1), low, zeros(), before)
	old := left[0]
	// The upper lanes first: they need what the lower ones were before.
	var out [2]vec
	for i, l := range []vec{left[0], left[1]} {
		t := YMM()
		VPALIGNR(U8(14), halves(0x21, before, l), l, t)
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
		r = or(r, rHigh)
		sign := op(VPSUBW, zeros(), and(r, w.one))
		VPSRLW(U8(1), r, r)
		r = xor(and(r, w.low15), sign)
		mx, mn := op(VPMAXUW, k, t), op(VPMINUW, k, t)
		sum, clamped := op(VPADDW, mx, mn), op(VPMINUW, op(VPMAXUW, aboveLeft[i], mn), mx)
		if med {
			out[i] = op(VPSUBW, op(VPADDW, sum, r), clamped)
		} else {
			median, avg := op(VPSUBW, sum, clamped), op(VPAVGW, k, t)
			d := xor(median, avg)
			u := xor(median, and(d, Mem{Base: state, Disp: wideMean}))
			v := xor(median, and(d, Mem{Base: state, Disp: wideNotMED}))
			out[i] = op(VPADDW, op(VPAVGW, u, v), r)
		}
		VMOVDQA(t, aboveLeft[i])
	}
	for i := range 2 {
		VMOVDQA(out[i], left[i])
	}
	lowBytes := op(VPACKUSWB, and(out[0], w.bytesOf), and(out[1], w.bytesOf))
	VPERMQ(U8(0xd8), lowBytes, lowBytes)
	VMOVDQU(lowBytes, Mem{Base: z})
	for i := range 2 {
		VPSRLW(U8(8), out[i], out[i])
	}
	highBytes := op(VPACKUSWB, out[0], out[1])
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
		VMOVDQU(left[i], Mem{Base: state, Disp: wideLeft + i*32})
		VMOVDQU(aboveLeft[i], Mem{Base: state, Disp: wideAbove + i*32})
	}
	VZEROUPPER()
	RET()
}
