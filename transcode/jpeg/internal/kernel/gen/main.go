// Command gen writes the AVX2 kernels of package kernel: assembly, and the Go file
// that declares it. Run it by go generate in the directory of that package.
//
// What the registers hold is said in the files of this package. A pair register is
// one of 16-bit values from two rows of 8: its lower half has the first four of
// each row, its upper half the last four.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64")
	transforms()
	upsampling()
	colours()
	Generate()
}

// function begins a kernel.
func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + " " + doc)
}

// words returns a constant of 16 words that repeats the values given.
func words(name string, values ...int) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < 16; i += 4 {
		var v uint64
		for j := range 4 {
			v |= uint64(uint16(values[(i+j)%len(values)])) << (16 * j)
		}
		DATA(2*i, U64(v))
	}
	return m
}

// dwords returns a constant of 8 doublewords of one value.
func dwords(name string, value uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 4 {
		DATA(8*i, U64(uint64(value)<<32|uint64(value)))
	}
	return m
}

// bytes returns a constant of 32 bytes that repeats the values given.
func bytes(name string, values ...int) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < 32; i += 8 {
		var v uint64
		for j := range 8 {
			v |= uint64(uint8(values[(i+j)%len(values)])) << (8 * j)
		}
		DATA(i, U64(v))
	}
	return m
}

// none is an index that VPSHUFB makes zero of.
const none = math.MaxUint8

// The following emit an instruction with a new destination register.

type vec = reg.VecVirtual

func op2(f func(...Op), a, b Op) vec {
	d := YMM()
	f(b, a, d)
	return d
}

func shift(f func(...Op), a Op, n int) vec {
	d := YMM()
	f(U8(n), a, d)
	return d
}

func load(m Mem) vec {
	d := YMM()
	VMOVDQU(m, d)
	return d
}

func zero() vec {
	d := YMM()
	VPXOR(d, d, d)
	return d
}

func add16(a, b Op) vec   { return op2(VPADDW, a, b) }
func sub16(a, b Op) vec   { return op2(VPSUBW, a, b) }
func add32(a, b Op) vec   { return op2(VPADDD, a, b) }
func sub32(a, b Op) vec   { return op2(VPSUBD, a, b) }
func low8(a, b Op) vec    { return op2(VPUNPCKLBW, a, b) }
func high8(a, b Op) vec   { return op2(VPUNPCKHBW, a, b) }
func low16(a, b Op) vec   { return op2(VPUNPCKLWD, a, b) }
func high16(a, b Op) vec  { return op2(VPUNPCKHWD, a, b) }
func low32(a, b Op) vec   { return op2(VPUNPCKLDQ, a, b) }
func high32(a, b Op) vec  { return op2(VPUNPCKHDQ, a, b) }
func pack32(a, b Op) vec  { return op2(VPACKSSDW, a, b) }
func shuffle(a, b Op) vec { return op2(VPSHUFB, a, b) }

func or(a, b Op) vec {
	d := YMM()
	VPOR(b, a, d)
	return d
}

func xor(a, b Op) vec {
	d := YMM()
	VPXOR(b, a, d)
	return d
}

// dot multiplies 16-bit values and adds up adjacent products.
func dot(a, b Op) vec { return op2(VPMADDWD, a, b) }

// halves takes the lower or the upper halves of two registers, by the immediate
// of VPERM2I128.
func halves(imm int, a, b Op) vec {
	d := YMM()
	VPERM2I128(U8(imm), b, a, d)
	return d
}

const (
	lowers = 0x20
	uppers = 0x31
)
