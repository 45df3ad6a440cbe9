package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

const maxSamples = 4

// ofState is what the state has of channel c, see wavefrontState of package v2.
func ofState(state reg.Register, field string, c int) Mem {
	return Addr(Struct("state", state).Field(field).Index(c))
}

// wavefronts turns the residuals of a unit to samples, in place. The channels are taken
// together, so that each has time for its chain of instructions.
func wavefronts() {
	hot := make([]byte, 96)
	hot[32] = 255
	onehot := Data("onehot", hot)
	low7 := Data32("low7", func(int) byte { return 0x7f })
	one := Data32("lowest", func(int) byte { return 1 })
	for _, n := range []int{1, 3, 4} {
		for _, edge := range []bool{false, true} {
			for _, med := range []bool{false, true} {
				wavefront(n, edge, med, onehot, low7, one)
			}
		}
	}
	wide := newWide(onehot)
	wide.wavefront(false)
	wide.wavefront(true)
}

// wavefront is for n channels. med says that there is no other predictor than MED.
func wavefront(n int, edge, med bool, onehot, low7, one Mem) {
	name, signature := fmt.Sprintf("wavefront%d", n), "func(z *byte, state *wavefrontState, carry *byte, channel int)"
	doc := fmt.Sprintf("makes samples of the residuals of %d channels. carry is the last row of the\nband before, channel the distance to that of the next channel.", n)
	if edge {
		name, signature = name+"Edge", "func(z *byte, state *wavefrontState, carry *byte, channel int, band, x, top int)"
		doc = fmt.Sprintf("is wavefront%dAVX2 where lanes may be at the edges of the patch: lane 0 is at x of\na band, and in the first row for another top steps.", n)
	}
	if med {
		doc = fmt.Sprintf("is %sAVX2 for channels predicted by MED.", name)
		name += "MED"
	}
	Kernel(name+"AVX2", signature, doc)
	z, state, carry, channel := Arg("z"), Arg("state"), Arg("carry"), Arg("channel")
	carries := [maxSamples]Mem{{Base: carry}, {Base: carry, Index: channel, Scale: 1}, {Base: carry, Index: channel, Scale: 2}}
	if n == maxSamples {
		triple := GP64()
		LEAQ(Mem{Base: channel, Index: channel, Scale: 2}, triple)
		carries[3] = Mem{Base: carry, Index: triple, Scale: 1}
	}
	var masks, x, band, top reg.GPVirtual
	if edge {
		masks, x, band, top = GP64(), Arg("x"), Arg("band"), Arg("top")
		LEAQ(onehot.Offset(32), masks)
	}
	var left, aboveLeft [maxSamples]Vec
	for c := range n {
		left[c] = Loaded(ofState(state, "left", c))
		aboveLeft[c] = Loaded(ofState(state, "above", c))
	}
	half := GP64()
	MOVQ(U32(2), half)
	Label("half")
	step := GP64()
	MOVQ(U32(blockSteps), step)
	Label("step")
	var first, highest Vec
	if edge {
		f, h := edges(x, band, top)
		first, highest = Loaded(Mem{Base: masks, Index: f, Scale: 1}), Loaded(Mem{Base: masks, Index: h, Scale: 1})
	}
	for c := range n {
		at := Mem{Base: z, Disp: c * columnsLen}
		l, tl := left[c], aboveLeft[c]
		b, t := YMM(), YMM()
		VPBROADCASTB(carries[c], b)
		VPALIGNR(U8(15), Halves(0x21, b, l), l, t)
		if edge {
			// Without a row above, T is L, and without a sample to the left, L is T.
			VPBLENDVB(highest, l, t, t)
			VPBLENDVB(first, t, l, l)
		}
		r := Loaded(at)
		sign := Apply(VPSUBB, Zeros(), And(r, one))
		VPSRLW(U8(1), r, r)
		r = Xor(And(r, low7), sign)
		mx, mn := Maximum(l, t), Minimum(l, t)
		sum, clamped := Plus(mx, mn), Minimum(Maximum(tl, mn), mx)
		if med {
			// What is known first is added first: this is what the next step waits for.
			VPSUBB(clamped, Plus(sum, r), left[c])
		} else {
			// The prediction is the average of U and V, both MED or AVG.
			median, avg := Minus(sum, clamped), Average(l, t)
			d := Xor(median, avg)
			u := Xor(median, And(d, ofState(state, "mean", c)))
			v := Xor(median, And(d, ofState(state, "notMED", c)))
			VPADDB(Average(u, v), r, left[c])
		}
		VMOVDQU(left[c], at)
		VMOVDQA(t, tl)
	}
	ADDQ(U8(lanes), z)
	INCQ(carry)
	DECQ(step)
	JNZ(LabelRef("step"))
	if n > 1 {
		ADDQ(U32((n-1)*columnsLen), z)
	}
	DECQ(half)
	JNZ(LabelRef("half"))
	for c := range n {
		VMOVDQU(left[c], ofState(state, "left", c))
		VMOVDQU(aboveLeft[c], ofState(state, "above", c))
	}
	VZEROUPPER()
	RET()
}

// edges returns the offsets in onehot, from 32 on, of the masks of the lane whose sample
// is the first of its row, and of the one whose row is the first, and steps on.
func edges(x, band, top reg.GPVirtual) (first, highest reg.GPVirtual) {
	first, highest = GP64(), GP64()
	none := GP64()
	MOVL(U32(lanes), none.As32())
	MOVQ(x, first)
	CMPQ(first, none)
	CMOVQGT(none, first)
	NEGQ(first)
	XORL(highest.As32(), highest.As32())
	NEGQ(none)
	TESTQ(top, top)
	CMOVQLE(none, highest)
	DECQ(top)
	INCQ(x)
	XORL(none.As32(), none.As32())
	CMPQ(x, band)
	CMOVQEQ(none, x)
	return first, highest
}
