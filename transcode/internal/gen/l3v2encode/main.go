// Command l3v2encode writes the assembly of the encoder of L3, version 2.
package main

import (
	. "github.com/mmcloughlin/avo/build"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

var (
	target       = Open("transcode/l3/internal/v2")
	codeRice     = target.Int("codeRice")
	rices        = target.Int("codes") - codeRice
	planes       = target.Int("planes")
	maxQuotients = target.Int("maxQuotients")
)

func main() {
	deinterleave3()
	deinterleave4()
	colours()
	residuals()
	fastCosts()
	denseCosts()
	emit()
	Generate()
}

func bytesOf(n int, v byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = v
	}
	return b
}
