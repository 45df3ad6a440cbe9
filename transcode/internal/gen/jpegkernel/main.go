// Command jpegkernel writes the assembly of the arithmetic of JPEG's pixels.
//
// What the registers hold is said in the files of this package. A pair register is
// one of 16-bit values from two rows of 8: its lower half has the first four of
// each row, its upper half the last four.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

var target = Open("transcode/jpeg/internal/kernel")

func main() {
	transforms()
	upsampling()
	colours()
	coefficients()
	skip()
	Generate()
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
	return Data32(name, func(i int) byte { return byte(values[i%len(values)]) })
}

// none is an index that VPSHUFB makes zero of.
const none = math.MaxUint8

// The following emit an instruction with a new destination register.

func shift(f func(...Op), a Op, n int) Vec {
	d := YMM()
	f(U8(n), a, d)
	return d
}

func add16(a, b Op) Vec  { return Apply(VPADDW, a, b) }
func sub16(a, b Op) Vec  { return Apply(VPSUBW, a, b) }
func add32(a, b Op) Vec  { return Apply(VPADDD, a, b) }
func sub32(a, b Op) Vec  { return Apply(VPSUBD, a, b) }
func low8(a, b Op) Vec   { return Apply(VPUNPCKLBW, a, b) }
func high8(a, b Op) Vec  { return Apply(VPUNPCKHBW, a, b) }
func low16(a, b Op) Vec  { return Apply(VPUNPCKLWD, a, b) }
func high16(a, b Op) Vec { return Apply(VPUNPCKHWD, a, b) }
func low32(a, b Op) Vec  { return Apply(VPUNPCKLDQ, a, b) }
func high32(a, b Op) Vec { return Apply(VPUNPCKHDQ, a, b) }
func pack32(a, b Op) Vec { return Apply(VPACKSSDW, a, b) }

// dot multiplies 16-bit values and adds up adjacent products.
func dot(a, b Op) Vec { return Apply(VPMADDWD, a, b) }

// What Halves takes.
const (
	lowers = 0x20
	uppers = 0x31
)
