// Command l3v1 writes the assembly of the decoder and the encoder of L3, version 1.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

var (
	target = Open("transcode/l3/internal/v1")
	stride = target.Int("stride")
)

func main() {
	t := tables()
	rows(t)
	wideRows(t)
	interleave()
	pick()
	residuals(t)
	predictions()
	Generate()
}

// above is how much a is more than b, 0 if it is less.
func above(a, b Op) Vec { return Apply(VPSUBUSB, a, b) }
