package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// transpositions moves the columns of a unit to rows. Each lane is behind
// the one above; its row is written so much further to the left.
func transpositions() {
	Kernel("transposeAVX2", "func(rows *byte, z *byte, lane, channel, n int)",
		`writes the 16 columns of n channels to rows. The one of lane 0 and the
first channel goes to rows; lane and channel are the distances to those of the next
lane, less the sample that it is behind, and the next channel.`)
	rows, z, lane, n := Arg("rows"), Arg("z"), Arg("lane"), Arg("n")
	second := GP64()
	MOVQ(n, second)
	SHLQ(U8(8), second)
	ADDQ(z, second)
	lower := AllocLocal(8 * 32)
	Label("channel")
	for i, v := range columns(Mem{Base: z}) {
		VMOVDQU(v, lower.Offset(32*i))
	}
	high := columns(Mem{Base: second})
	d, e := GP64(), GP64()
	MOVQ(rows, d)
	// Lane 16.
	MOVQ(lane, e)
	SHLQ(U8(4), e)
	ADDQ(rows, e)
	for i, h := range high {
		l := Loaded(lower.Offset(32 * i))
		for _, v := range []Vec{Apply(VPUNPCKLQDQ, l, h), Apply(VPUNPCKHQDQ, l, h)} {
			VMOVDQU(v.AsX(), Mem{Base: d})
			VEXTRACTI128(U8(1), v, Mem{Base: e})
			ADDQ(lane, d)
			ADDQ(lane, e)
		}
	}
	ADDQ(U32(columnsLen), z)
	ADDQ(U32(columnsLen), second)
	ADDQ(ArgAddr("channel"), rows)
	DECQ(n)
	JNZ(LabelRef("channel"))
	VZEROUPPER()
	RET()
}

// shifts moves what has been decoded of the next band.
func shifts() {
	Kernel("shiftAVX2", "func(rows *byte, row, band, n int)",
		`moves 48 bytes of n rows, at distances of row: those that are band behind its
beginning to there.`)
	rows, row, band, n := Arg("rows"), Arg("row"), Arg("band"), Arg("n")
	Label("row")
	a, b := YMM(), XMM()
	VMOVDQU(Mem{Base: rows, Index: band, Scale: 1}, a)
	VMOVDQU(Mem{Base: rows, Index: band, Scale: 1, Disp: 32}, b)
	VMOVDQU(a, Mem{Base: rows})
	VMOVDQU(b, Mem{Base: rows, Disp: 32})
	ADDQ(row, rows)
	DECQ(n)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// columns loads 8 columns. Register i of what it returns has the 8 samples of lanes 2i
// and 2i+1 in its lower half, and those of 16 more in its upper half.
func columns(at Mem) (out [8]Vec) {
	var a, b [2][4]Vec
	for i := range 4 {
		v := Loaded(at.Offset(2 * i * lanes))
		a[0][i] = Apply(VPUNPCKLBW, v, at.Offset((2*i+1)*lanes))
		a[1][i] = Apply(VPUNPCKHBW, v, at.Offset((2*i+1)*lanes))
	}
	for k := range 2 {
		for i := range 2 {
			b[k][2*i] = Apply(VPUNPCKLWD, a[k][2*i], a[k][2*i+1])
			b[k][2*i+1] = Apply(VPUNPCKHWD, a[k][2*i], a[k][2*i+1])
		}
		for i := range 2 {
			out[4*k+2*i] = Apply(VPUNPCKLDQ, b[k][i], b[k][i+2])
			out[4*k+2*i+1] = Apply(VPUNPCKHDQ, b[k][i], b[k][i+2])
		}
	}
	return out
}
