package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// interleave makes pixels of three bytes.
func interleave() {
	// spread[c][o] moves 16 bytes of each half to where those of channel c are in the
	// o-th 16 of 48 bytes of pixels.
	var spread [3][3]Mem
	for c := range 3 {
		for o := range 3 {
			m := make([]byte, 32)
			for i := range m {
				m[i] = 0xff
				if at := 16*o + i%16; at%3 == c {
					m[i] = byte(at / 3)
				}
			}
			spread[c][o] = Data(fmt.Sprintf("spread%d%d", c, o), m)
		}
	}
	Kernel("interleaveAVX2", "func(dst *byte, row int, red, green, blue *byte, w, h int)",
		`makes h rows of w pixels, at least 32, from three planes, whose first samples these are.`)
	dst, row, w, h := Arg("dst"), Arg("row"), Arg("w"), Arg("h")
	in := [3]reg.Register{Arg("red"), Arg("green"), Arg("blue")}
	SUBQ(U8(32), w)
	Label("row")
	i, m := GP64(), GP64()
	XORQ(i, i)
	Label("block")
	LEAQ(Mem{Base: i, Index: i, Scale: 2}, m)
	// Of the patch to the right, which comes next, if this one has 64 samples a row.
	PREFETCHT0(Mem{Base: dst, Index: m, Scale: 1, Disp: 192})
	PREFETCHT0(Mem{Base: dst, Index: m, Scale: 1, Disp: 192 + 64})
	var v [3]Vec
	for c := range v {
		v[c] = Loaded(Mem{Base: in[c], Index: i, Scale: 1})
	}
	for o := range 3 {
		d := Apply(VPSHUFB, v[0], spread[0][o])
		d = Or(d, Apply(VPSHUFB, v[1], spread[1][o]))
		d = Or(d, Apply(VPSHUFB, v[2], spread[2][o]))
		VMOVDQU(d.AsX(), Mem{Base: dst, Index: m, Scale: 1, Disp: 16 * o})
		VEXTRACTI128(U8(1), d, Mem{Base: dst, Index: m, Scale: 1, Disp: 48 + 16*o})
	}
	// The last block of a row overlaps the one before if it has to.
	CMPQ(i, w)
	JE(LabelRef("next"))
	ADDQ(U8(32), i)
	CMPQ(i, w)
	CMOVQGT(w, i)
	JMP(LabelRef("block"))
	Label("next")
	for _, p := range in {
		ADDQ(U32(stride), p)
	}
	ADDQ(row, dst)
	DECQ(h)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
