// Command l3v2decode writes the assembly of the decoder of L3, version 2.
package main

import (
	. "github.com/mmcloughlin/avo/build"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

var (
	target     = Open("transcode/l3/internal/v2")
	lanes      = target.Int("lanes")
	blockSteps = target.Int("blockSteps")
	columnsLen = target.Int("columnsLen")
	codeRice   = target.Int("codeRice")
	planes     = target.Int("planes")
)

func main() {
	raw()
	quotients()
	wavefronts()
	transpositions()
	shifts()
	colours()
	words()
	cpuid()
	Generate()
}
