package raster_test

import (
	"fmt"
	"log"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/raster"
)

func ExampleEncodeNPY() {
	px := &transcode.Pixels{Width: 2, Height: 1, Mode: transcode.ModeL, Pix: []byte{7, 9}}
	file, err := raster.EncodeNPY(px)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %v\n", file[10:70], file[128:])
	// Output: {'descr': '|u1', 'fortran_order': False, 'shape': (1, 2), }  [7 9]
}
