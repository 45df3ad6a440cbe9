// Command genencode writes the AVX2 forms of the encoder of package v2: assembly, and
// the Go file that declares it. Run it by go generate in the directory of that package.
package main

import (
	"encoding/binary"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	deinterleave3()
	deinterleave4()
	colours()
	residuals()
	fastCosts()
	denseCosts()
	emit()
	Generate()
}

// function begins a function.
func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(strings.Split(name+" "+doc, "\n")...)
}

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// constant places bytes, whose number is a multiple of 8, in memory.
func constant(name string, b []byte) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < len(b); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
	}
	return m
}

// repeated is a constant of 32 equal bytes.
func repeated(name string, v byte) Mem { return constant(name, bytesOf(32, v)) }

func bytesOf(n int, v byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = v
	}
	return b
}

type vec = reg.VecVirtual

// op returns what an instruction makes of a and b; a - b for a difference.
func op(f func(...Op), a, b Op) vec {
	d := YMM()
	f(b, a, d)
	return d
}

// half is op for 16 bytes.
func half(f func(...Op), a, b Op) vec {
	d := XMM()
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

func zeros() vec {
	d := YMM()
	VPXOR(d, d, d)
	return d
}

func maximum(a, b Op) vec { return op(VPMAXUB, a, b) }
func minimum(a, b Op) vec { return op(VPMINUB, a, b) }
func average(a, b Op) vec { return op(VPAVGB, a, b) }
func minus(a, b Op) vec   { return op(VPSUBB, a, b) }
func plus(a, b Op) vec    { return op(VPADDB, a, b) }
func and(a, b Op) vec     { return op(three(VPAND), a, b) }
func or(a, b Op) vec      { return op(three(VPOR), a, b) }
func xor(a, b Op) vec     { return op(three(VPXOR), a, b) }
