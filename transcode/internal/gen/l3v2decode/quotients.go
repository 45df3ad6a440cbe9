package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// quotients adds the quotients to blocks. All blocks take the same way, as far as
// plane 7: those without Rice codes have an empty plane 1, and then all are. Only plane
// 8 and escapes, which are rare, have a way of their own.
func quotients() {
	bit := Data32("bit", func(i int) byte { return 1 << (i % 8) })
	low := Data32("lowBytes", func(i int) byte { return byte(i / 8) })
	high := Data32("highBytes", func(i int) byte { return byte(4 + i/8) })
	one := Data32("one", func(int) byte { return 1 })
	two := Data32("two", func(int) byte { return 2 })
	four := Data32("four", func(int) byte { return 4 })

	Kernel("quotientsAVX2", "func(z *byte, src *byte, records *blockRecord, words int, pos *[8]uint64, escapesEnd uint64) bool",
		`adds the quotients to the blocks of some code words, from the
streams at the bits pos. It returns false if they are damaged. It can read 8 bytes a
block beyond where the streams end.`)
	// What is rarely used is on the stack.
	stack := AllocLocal(64 + 8 + 8 + 8)
	pos6, pos7, bad := stack.Offset(64), stack.Offset(72), stack.Offset(80)
	z, src, record := Arg("z"), Arg("src"), Arg("records")
	pos := make([]reg.GPVirtual, planes-2)
	p, t := Arg("pos"), GP64()
	for i := range pos {
		pos[i] = GP64()
		MOVQ(Mem{Base: p, Disp: 8 * i}, pos[i])
	}
	MOVQ(Mem{Base: p, Disp: 48}, t)
	MOVQ(t, pos6)
	MOVQ(Mem{Base: p, Disp: 56}, t)
	MOVQ(t, pos7)
	MOVQ(U32(0), bad)
	// From here on the parameter is how many words are left.
	left := ArgAddr("words")
	many := GP64()
	XORL(many.As32(), many.As32())
	bits := Loaded(bit)

	// window loads 57 bits of a stream at least, from the one at pos on.
	window := func(pos Op, d, t reg.GPVirtual) {
		MOVQ(pos, t)
		SHRQ(U8(3), t)
		MOVQ(Mem{Base: src, Index: t, Scale: 1}, d)
		MOVQ(pos, t)
		ANDL(U8(7), t.As32())
		SHRXQ(t, d, d)
	}
	// expand makes bytes of the bits of a plane: value where one is set.
	expand := func(m reg.GPVirtual, value Mem) (l, h Vec) {
		x := YMM()
		VMOVQ(m, x.AsX())
		VPBROADCASTQ(x.AsX(), x)
		l, h = Shuffle(x, low), Shuffle(x, high)
		l, h = Equal(And(l, bits), bits), Equal(And(h, bits), bits)
		return And(l, value), And(h, value)
	}

	Label("word")
	var blocks [4][2]Vec
	for b := range 4 {
		ones, rawBits, forbidden := ofRecord(record, b, "ones"), ofRecord(record, b, "bits"), ofRecord(record, b, "forbidden")
		// Planes are like a thermometer: that i is set means that all before are. The bits of
		// the number of planes set are these:
		//
		//	bit 0  whether it is odd: planes 1 to 7, added without carry
		//	bit 1  planes 2, 4 and 6
		//	bit 2  plane 4
		a, bit0, bit1 := GP64(), GP64(), GP64()
		MOVQ(ones, a)
		MOVQ(a, bit0)
		var l, h Vec
		for i := range pos {
			d, t := GP64(), GP64()
			window(pos[i], d, t)
			PDEPQ(a, d, d)
			POPCNTQ(a, a)
			ADDQ(a, pos[i])
			if i == 0 {
				// Bit 6 from 57 on.
				ADDQ(U8(7), a)
				ORQ(a, many)
			}
			a = d
			XORQ(a, bit0)
			switch i + 2 {
			case 2:
				MOVQ(a, bit1)
			case 4:
				l, h = expand(a, four)
				XORQ(a, bit1)
				t := GP64()
				MOVQ(a, t)
				ANDQ(forbidden, t)
				ORQ(t, bad)
			case 6:
				XORQ(a, bit1)
				l1, h1 := expand(bit1, two)
				l, h = Or(l, l1), Or(h, h1)
			}
		}
		l0, h0 := expand(bit0, one)
		l, h = Or(l, l0), Or(h, h0)
		back := fmt.Sprintf("block%d", b)
		TESTQ(a, a)
		JZ(LabelRef(back))

		// Plane 8.
		d, t := GP64(), GP64()
		window(pos6, d, t)
		PDEPQ(a, d, d)
		POPCNTQ(a, a)
		ADDQ(a, pos6)
		TESTQ(d, d)
		JZ(LabelRef(back))
		// Escapes have 8 bits less those that are raw, and are 8 at least, which excludes
		// them where there are 5 raw bits or more.
		VMOVDQU(l, stack)
		VMOVDQU(h, stack.Offset(32))
		escape := fmt.Sprintf("escape%d", b)
		Label(escape)
		j, q, k, mask := GP64(), GP64(), GP64(), GP64()
		end := ArgAddr("escapesEnd")
		MOVQ(pos7, k)
		CMPQ(k, end)
		JA(LabelRef("damaged"))
		window(pos7, q, k)
		MOVQ(rawBits, k)
		MOVL(U32(255), mask.As32())
		SHRXL(k.As32(), mask.As32(), mask.As32())
		ANDL(mask.As32(), q.As32())
		CMPL(q.As32(), U8(8))
		JB(LabelRef("damaged"))
		MOVL(U32(8), mask.As32())
		SUBQ(k, mask)
		ADDQ(mask, pos7)
		TZCNTQ(d, j)
		BLSRQ(d, d)
		place := stack
		place.Index, place.Scale = j, 1
		MOVB(q.As8(), place)
		TESTQ(d, d)
		JNZ(LabelRef(escape))
		VMOVDQU(stack, l)
		VMOVDQU(stack.Offset(32), h)

		Label(back)
		shift := XMM()
		VMOVQ(rawBits, shift)
		for i, v := range []Vec{l, h} {
			// Nothing comes out of a byte, unless the block is damaged.
			blocks[b][i] = YMM()
			VPSLLW(shift, v, blocks[b][i])
		}
	}
	// From blocks of 8 columns of 8 lanes to columns of 32 lanes.
	for i := range 2 {
		l0, h0 := Apply(VPUNPCKLQDQ, blocks[0][i], blocks[1][i]), Apply(VPUNPCKHQDQ, blocks[0][i], blocks[1][i])
		l1, h1 := Apply(VPUNPCKLQDQ, blocks[2][i], blocks[3][i]), Apply(VPUNPCKHQDQ, blocks[2][i], blocks[3][i])
		for j, v := range []Vec{Halves(0x20, l0, l1), Halves(0x20, h0, h1), Halves(0x31, l0, l1), Halves(0x31, h0, h1)} {
			m := Mem{Base: z, Disp: (4*i + j) * lanes}
			VMOVDQU(Or(v, m), m)
		}
	}
	ADDQ(U32(columnsLen), z)
	SUBQ(I8(-4*recordLen), record)
	DECQ(left)
	JNZ(LabelRef("word"))

	Load(Param("pos"), p)
	for i := range pos {
		MOVQ(pos[i], Mem{Base: p, Disp: 8 * i})
	}
	MOVQ(pos6, t)
	MOVQ(t, Mem{Base: p, Disp: 48})
	MOVQ(pos7, t)
	MOVQ(t, Mem{Base: p, Disp: 56})
	ok := GP8()
	ANDQ(U8(64), many)
	ORQ(bad, many)
	SETEQ(ok)
	Result(ok)

	Label("damaged")
	failed := GP8()
	XORB(failed, failed)
	Result(failed)
}
