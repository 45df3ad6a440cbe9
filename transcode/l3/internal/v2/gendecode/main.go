// Command gendecode writes the AVX2 forms of the decoder of package v2: assembly,
// and the Go file that declares it. Run it by go generate in the directory of that
// package.
package main

import (
	"encoding/binary"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Of package v2.
const (
	lanes      = 32
	blockSteps = 8
	columnsLen = lanes * blockSteps
	codeRice   = 9
	planes     = 8
)

func main() {
	ConstraintExpr("amd64")
	raw()
	quotients()
	waves()
	transpositions()
	slides()
	colours()
	words()
	cpuid()
	Generate()
}

// function begins a function.
func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(strings.Split(name+" "+doc, "\n")...)
}

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// result returns a value, which ends the function.
func result(v reg.Register) {
	Store(v, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// constant places bytes, whose number is a multiple of 8, in memory.
func constant(name string, b []byte) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < len(b); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
	}
	return m
}

// constants places 32 bytes, those that f returns.
func constants(name string, f func(i int) byte) Mem {
	b := make([]byte, 32)
	for i := range b {
		b[i] = f(i)
	}
	return constant(name, b)
}

type vec = reg.VecVirtual

// op returns what an instruction makes of a and b; a - b for a difference.
func op(f func(...Op), a, b Op) vec {
	d := YMM()
	f(b, a, d)
	return d
}

// three is for instructions that have no forms with more operands.
func three(f func(a, b, d Op)) func(...Op) {
	return func(o ...Op) { f(o[0], o[1], o[2]) }
}

func load(m Op) vec {
	d := YMM()
	VMOVDQU(m, d)
	return d
}

func maximum(a, b Op) vec { return op(VPMAXUB, a, b) }
func minimum(a, b Op) vec { return op(VPMINUB, a, b) }
func average(a, b Op) vec { return op(VPAVGB, a, b) }
func minus(a, b Op) vec   { return op(VPSUBB, a, b) }
func plus(a, b Op) vec    { return op(VPADDB, a, b) }
func equal(a, b Op) vec   { return op(VPCMPEQB, a, b) }
func shuffle(a, b Op) vec { return op(VPSHUFB, a, b) }
func and(a, b Op) vec     { return op(three(VPAND), a, b) }
func or(a, b Op) vec      { return op(three(VPOR), a, b) }
func xor(a, b Op) vec     { return op(three(VPXOR), a, b) }

// halves takes two of the halves of a, 0 and 1, and b, 2 and 3, by the immediate of
// VPERM2I128.
func halves(imm int, a, b Op) vec {
	d := YMM()
	VPERM2I128(U8(imm), b, a, d)
	return d
}
