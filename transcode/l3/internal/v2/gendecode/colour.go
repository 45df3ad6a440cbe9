package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Of the masks of a colour transform.
const (
	maskColour = 0  // everywhere, unless there is no colour transform
	maskAvg    = 32 // everywhere if blue is predicted from the average
	maskCentre = 64 // 128 where there is a colour transform
)

// colours undoes the colour transform of rows and writes them to where they are wanted.
func colours() {
	var spread [3][3]Mem
	for c := range 3 {
		for o := range 3 {
			spread[c][o] = constants(fmt.Sprintf("spread%d%d", c, o), func(i int) byte {
				if at := 16*o + i%16; at%3 == c {
					return byte(at / 3)
				}
				return 0xff
			})
		}
	}
	const rows = "dst *byte, row int, src *byte, lane, channel int, w, h int, masks *[3][32]byte"
	const doc = " of h rows of w pixels, at least 32. The one at dst comes\nfrom the samples at src; lane and channel are the distances to the next row and channel."
	for _, order := range []string{"rgb", "bgr"} {
		function(order+"AVX2", "func("+rows+")", "writes the "+order+" pixels"+doc)
		eachBlock(false, func(dst reg.GPVirtual, i reg.GPVirtual, v [4]vec) {
			m := GP64()
			LEAQ(Mem{Base: i, Index: i, Scale: 2}, m)
			if order == "bgr" {
				v[0], v[2] = v[2], v[0]
			}
			for o := range 3 {
				d := shuffle(v[0], spread[0][o])
				d = or(d, shuffle(v[1], spread[1][o]))
				d = or(d, shuffle(v[2], spread[2][o]))
				VMOVDQU(d.AsX(), Mem{Base: dst, Index: m, Scale: 1, Disp: 16 * o})
				VEXTRACTI128(U8(1), d, Mem{Base: dst, Index: m, Scale: 1, Disp: 48 + 16*o})
			}
		})
	}
	function("rgbaAVX2", "func("+rows+")", "writes the rgba pixels"+doc)
	eachBlock(true, func(dst reg.GPVirtual, i reg.GPVirtual, v [4]vec) {
		rgLow, rgHigh := op(VPUNPCKLBW, v[0], v[1]), op(VPUNPCKHBW, v[0], v[1])
		baLow, baHigh := op(VPUNPCKLBW, v[2], v[3]), op(VPUNPCKHBW, v[2], v[3])
		for o, d := range []vec{
			op(VPUNPCKLWD, rgLow, baLow), op(VPUNPCKHWD, rgLow, baLow),
			op(VPUNPCKLWD, rgHigh, baHigh), op(VPUNPCKHWD, rgHigh, baHigh),
		} {
			VMOVDQU(d.AsX(), Mem{Base: dst, Index: i, Scale: 4, Disp: 16 * o})
			VEXTRACTI128(U8(1), d, Mem{Base: dst, Index: i, Scale: 4, Disp: 64 + 16*o})
		}
	})
	function("planesAVX2", "func("+rows+", plane int)",
		"writes the red, green and blue samples"+doc+"\nThe channels are written at distances of plane.")
	eachBlock(false, func(dst reg.GPVirtual, i reg.GPVirtual, v [4]vec) {
		at, plane := GP64(), NewParamAddr("plane", 64)
		LEAQ(Mem{Base: dst, Index: i, Scale: 1}, at)
		for c := range 3 {
			VMOVDQU(v[c], Mem{Base: at})
			if c < 2 {
				ADDQ(plane, at)
			}
		}
	})
}

// eachBlock undoes the colour transform of 32 pixels at a time and calls write with
// them: red, green, blue, and alpha if it is asked for.
func eachBlock(alpha bool, write func(dst, i reg.GPVirtual, v [4]vec)) {
	dst, src, channel := param("dst"), param("src"), param("channel")
	w, h, masks := param("w"), param("h"), param("masks")
	triple := GP64()
	if alpha {
		LEAQ(Mem{Base: channel, Index: channel, Scale: 2}, triple)
	}
	SUBQ(U8(lanes), w)
	Label("row")
	i := GP64()
	XORQ(i, i)
	Label("block")
	at := GP64()
	LEAQ(Mem{Base: src, Index: i, Scale: 1}, at)
	g := load(Mem{Base: at})
	centre := load(Mem{Base: masks, Disp: maskCentre})
	u := and(g, Mem{Base: masks, Disp: maskColour})
	r := xor(plus(load(Mem{Base: at, Index: channel, Scale: 1}), u), centre)
	u = xor(u, and(xor(u, average(r, g)), Mem{Base: masks, Disp: maskAvg}))
	b := xor(plus(load(Mem{Base: at, Index: channel, Scale: 2}), u), centre)
	v := [4]vec{r, g, b}
	if alpha {
		v[3] = load(Mem{Base: at, Index: triple, Scale: 1})
	}
	write(dst, i, v)
	// The last block of a row overlaps the one before if it has to.
	CMPQ(i, w)
	JE(LabelRef("next"))
	ADDQ(U8(lanes), i)
	CMPQ(i, w)
	CMOVQGT(w, i)
	JMP(LabelRef("block"))
	Label("next")
	ADDQ(NewParamAddr("lane", 24), src)
	ADDQ(NewParamAddr("row", 8), dst)
	DECQ(h)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// cpuid is for what golang.org/x/sys/cpu does not tell.
func cpuid() {
	TEXT("cpuid", NOSPLIT, "func(leaf uint32) (a, b, c, d uint32)")
	Doc("cpuid is the instruction.")
	Load(Param("leaf"), reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	Store(reg.EAX, Return("a"))
	Store(reg.EBX, Return("b"))
	Store(reg.ECX, Return("c"))
	Store(reg.EDX, Return("d"))
	RET()
}
