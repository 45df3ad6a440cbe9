package mssim_test

import (
	"fmt"
	"log"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/transcode"
)

// A picture, and the same with every fifth value a little brighter.
func ExampleCompare() {
	a := &transcode.Pixels{Width: 200, Height: 200, Mode: transcode.ModeL, Pix: make([]byte, 200*200)}
	b := &transcode.Pixels{Width: 200, Height: 200, Mode: transcode.ModeL, Pix: make([]byte, 200*200)}
	for i := range a.Pix {
		a.Pix[i] = byte(i / 200)
		b.Pix[i] = a.Pix[i]
		if i%5 == 0 {
			b.Pix[i] += 10
		}
	}
	similarity, err := mssim.Compare(a, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f, safe: %v\n", similarity, similarity >= mssim.Safe)
	// Output: 0.97, safe: true
}
