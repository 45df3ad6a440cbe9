package raster_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/raster"
)

func ExampleBilinear() {
	px := &transcode.Pixels{Width: 4, Height: 1, Mode: transcode.ModeL, Pix: []byte{0, 0, 200, 200}}
	half, err := raster.Bilinear(context.Background(), px, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(half.Pix, raster.Nearest(px, 2, 1).Pix)
	// Output: [29 171] [0 200]
}
