package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// pick is the reverse of interleave, for one channel at a time: that is the order of
// the file.
func pick() {
	// For each channel: where its samples are in each 16 of 48 bytes of pixels.
	masks := make([]byte, 3*3*32)
	for c := range 3 {
		for o := range 3 {
			for i := range 32 {
				m := &masks[96*c+32*o+i]
				*m = 0xff
				if at := 3*(i%16) + c - 16*o; at >= 0 && at < 16 {
					*m = byte(at)
				}
			}
		}
	}
	table := Data("pick", masks)
	Kernel("pickAVX2", "func(dst, src *byte, row, channel, w, h int)",
		`moves one byte of each of w pixels of three bytes, at least 32, to a plane, of which dst is the first
sample, with a zero behind each of the h rows.`)
	dst, src, row, channel := Arg("dst"), Arg("src"), Arg("row"), Arg("channel")
	w, h := Arg("w"), Arg("h")
	IMUL3Q(U8(96), channel, channel)
	base := GP64()
	LEAQ(table, base)
	ADDQ(base, channel)
	var mask [3]Vec
	for o := range mask {
		mask[o] = Loaded(Mem{Base: channel, Disp: 32 * o})
	}
	SUBQ(U8(32), w)
	Label("row")
	MOVB(U8(0), Mem{Base: dst, Index: w, Scale: 1, Disp: 32})
	i, m := GP64(), GP64()
	XORQ(i, i)
	Label("block")
	LEAQ(Mem{Base: i, Index: i, Scale: 2}, m)
	var d Vec
	for o := range 3 {
		v := YMM()
		VMOVDQU(Mem{Base: src, Index: m, Scale: 1, Disp: 16 * o}, v.AsX())
		VINSERTI128(U8(1), Mem{Base: src, Index: m, Scale: 1, Disp: 48 + 16*o}, v, v)
		v = Apply(VPSHUFB, v, mask[o])
		if o == 0 {
			d = v
		} else {
			d = Or(d, v)
		}
	}
	VMOVDQU(d, Mem{Base: dst, Index: i, Scale: 1})
	// The last block of a row overlaps the one before if it has to.
	CMPQ(i, w)
	JE(LabelRef("next"))
	ADDQ(U8(32), i)
	CMPQ(i, w)
	CMOVQGT(w, i)
	JMP(LabelRef("block"))
	Label("next")
	ADDQ(row, src)
	ADDQ(U32(stride), dst)
	DECQ(h)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
