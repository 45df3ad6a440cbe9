package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// coefficients writes the loop that decodes AC coefficients. All that it needs stays in
// registers, and shifts by a register need no CX: what Go makes of the same loop moves the
// entry that was looked up through memory, between one code and the next.
func coefficients() {
	TEXT("coefficientsBMI2", NOSPLIT, "func(c *Cursor, b *[64]int16, data *byte, t *Table) int")
	Doc("coefficientsBMI2 is Coefficients.")
	Pragma("noescape")
	c := Dereference(Param("c"))
	load := func(field string) reg.Register { return Load(c.Field(field), GP64()) }
	pos, acc, n, k, nonzero := load("Pos"), load("Acc"), load("N"), load("K"), load("Nonzero")
	b, data, table := Load(Param("b"), GP64()), Load(Param("data"), GP64()), Load(Param("t"), GP64())
	look, last := GP64(), GP64()
	MOVQ(U32(64-target.Int("LookBits")), look)
	MOVQ(U32(63), last)
	e, t := GP64(), GP64()
	coefficient := Mem{Base: b, Index: k, Scale: 2}

	Load(c.Field("Entry"), e.As32())
	CMPQ(k, last)
	JAE(LabelRef("end"))
	refill(data, pos, acc, n, t)
	TESTL(e.As32(), e.As32())
	JNZ(LabelRef("symbol"))
	JMP(LabelRef("look"))
	Label("refill")
	refill(data, pos, acc, n, t)
	Label("look")

	// Two codes that are in the table together with their value, and one of any kind,
	// take no more than 56 bits.
	for range 3 {
		SHRXQ(look, acc, t)
		MOVL(Mem{Base: table, Index: t, Scale: 4}, e.As32())
		CMPL(e.As32(), U32(0xFFFF))
		JLS(LabelRef("symbol"))
		SHLXQ(e, acc, acc) // by the low 6 bits, which are the length
		MOVL(e.As32(), t.As32())
		SHRL(U8(8), t.As32())
		MOVBLZX(t.As8(), t.As32())
		ADDQ(t, k)
		MOVBLZX(e.As8(), t.As32())
		SUBQ(t, n)
		SHRL(U8(16), e.As32())
		CMPQ(k, last)
		JAE(LabelRef("last"))
		MOVW(e.As16(), coefficient)
		BTSQ(k, nonzero)
	}
	JMP(LabelRef("refill"))

	Label("last")
	JA(LabelRef("far"))
	MOVW(e.As16(), coefficient)
	BTSQ(k, nonzero)
	JMP(LabelRef("end"))

	Label("symbol")
	TESTB(e.As8(), e.As8())
	JZ(LabelRef("long"))
	SHLXQ(e, acc, acc)
	MOVBLZX(e.As8(), t.As32())
	SUBQ(t, n)
	SHRL(U8(8), e.As32())
	JZ(LabelRef("end"))
	MOVL(e.As32(), t.As32())
	SHRL(U8(4), t.As32())
	LEAQ(Mem{Base: k, Index: t, Scale: 1, Disp: 1}, k)
	CMPQ(k, last)
	JA(LabelRef("bad"))
	CMPL(e.As32(), U32(0xF0))
	JEQ(LabelRef("zeros"))
	ANDL(U8(15), e.As32())
	JZ(LabelRef("bad"))

	// A value of so many bits: if its first bit is 0, it is negative.
	SUBQ(e, n)
	value, low := GP64(), GP64()
	MOVQ(e, t)
	NEGQ(t)
	SHRXQ(t, acc, value)
	MOVQ(acc, low)
	SARQ(U8(63), low)
	NOTQ(low) // all ones where it is negative
	SHLXQ(e, acc, acc)
	MOVL(U32(1), t.As32())
	SHLXQ(e, t, t)
	DECQ(t)
	ANDQ(low, t)
	SUBQ(t, value)
	MOVW(value.As16(), coefficient)
	BTSQ(k, nonzero)
	Label("zeros")
	CMPQ(k, last)
	JB(LabelRef("refill"))

	Label("end")
	XORL(e.As32(), e.As32())
	JMP(LabelRef("out"))
	Label("long")
	MOVL(U32(target.Int("AtLong")), e.As32())
	JMP(LabelRef("out"))
	Label("far") // the code counts as not read
	ADDQ(t, n)
	Label("bad")
	MOVL(U32(target.Int("AtBad")), e.As32())
	Label("out")
	for _, f := range []struct {
		name string
		r    reg.Register
	}{{"Pos", pos}, {"Acc", acc}, {"N", n}, {"K", k}, {"Nonzero", nonzero}} {
		Store(f.r, c.Field(f.name))
	}
	Store(e, ReturnIndex(0))
	RET()
}

// skip writes the loop that passes by AC coefficients.
func skip() {
	TEXT("skipBMI2", NOSPLIT, "func(c *Cursor, data *byte, t *Lengths) int")
	Doc("skipBMI2 is Skip.")
	Pragma("noescape")
	c := Dereference(Param("c"))
	load := func(field string) reg.Register { return Load(c.Field(field), GP64()) }
	pos, acc, n, k := load("Pos"), load("Acc"), load("N"), load("K")
	data, table := Load(Param("data"), GP64()), Load(Param("t"), GP64())
	look := GP64()
	MOVQ(U32(64-target.Int("LookBits")), look)
	e, t := GP64(), GP64()

	Label("refill")
	refill(data, pos, acc, n, t)
	for range 2 {
		SHRXQ(look, acc, t)
		MOVWLZX(Mem{Base: table, Index: t, Scale: 2}, e.As32())
		MOVL(e.As32(), t.As32())
		SHRL(U8(8), t.As32())
		ADDQ(k, t)
		CMPQ(t, U8(63))
		JAE(LabelRef("long"))
		TESTL(e.As32(), e.As32())
		JZ(LabelRef("long"))
		MOVQ(t, k)
		SHLXQ(e, acc, acc) // by the low 6 bits
		MOVL(e.As32(), t.As32())
		ANDL(U8(63), t.As32())
		SUBQ(t, n)
		TESTB(U8(target.Int("LengthsEnd")), e.As8())
		JNZ(LabelRef("end"))
	}
	JMP(LabelRef("refill"))

	Label("end")
	XORL(e.As32(), e.As32())
	JMP(LabelRef("out"))
	Label("long")
	MOVL(U32(target.Int("AtLong")), e.As32())
	Label("out")
	Store(pos, c.Field("Pos"))
	Store(acc, c.Field("Acc"))
	Store(n, c.Field("N"))
	Store(k, c.Field("K"))
	Store(e, ReturnIndex(0))
	RET()
}

// refill loads bits until there are at least 56.
func refill(data, pos, acc, n, t reg.Register) {
	MOVQ(Mem{Base: data, Index: pos, Scale: 1}, t)
	BSWAPQ(t)
	SHRXQ(n, t, t)
	ORQ(t, acc)
	MOVQ(n, t)
	XORQ(U8(63), t)
	SHRQ(U8(3), t)
	ADDQ(t, pos)
	ORQ(U8(56), n)
}
