// Command resample writes the assembly of the package that scales pictures.
//
// An entry has the weights of one position of the result: see packed there. Low and high are
// the two parts of a weight.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

var (
	target    = Open("transcode/raster/internal/resample")
	precision = uint64(target.Int("precision"))
	positions = target.Int("positions")
	columns   = target.Int("columns")

	// rounding is what is added to a sum.
	rounding = words("half", uint32(target.Int("half")))
)

// none is an index that VPSHUFB makes zero of.
const none = 0xff

func main() {
	horizontal("horizontal1", 1, target.Int("mostRows"))
	for channels := 3; channels <= 4; channels++ {
		horizontal(fmt.Sprintf("horizontal%d", channels), channels, target.Int("fewRows"))
	}
	vertical()
	Generate()
}

// words returns a constant of 8 times 32 bits.
func words(name string, v uint32) Mem {
	return Data32(name, func(i int) byte { return byte(v >> (8 * (i % 4))) })
}

// lanes returns a constant of twice 16 bytes.
func lanes(name string, f func(i int) byte) Mem {
	return Data32(name, func(i int) byte { return f(i % 16) })
}

// everywhere returns 32 bits of memory, eight times.
func everywhere(m Mem) Vec {
	d := YMM()
	VPBROADCASTD(m, d)
	return d
}

func add32(a, b Op) Vec { return Apply(VPADDD, a, b) }

// dot multiplies 16-bit values and adds up adjacent products.
func dot(a, b Op) Vec { return Apply(VPMADDWD, a, b) }
