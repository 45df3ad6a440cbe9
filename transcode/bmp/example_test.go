package bmp_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
)

func Example() {
	red := &transcode.Pixels{Width: 1, Height: 1, Mode: transcode.ModeRGB, Pix: []byte{255, 0, 0}}
	file, err := bmp.Encode(red)
	if err != nil {
		log.Fatal(err)
	}
	px, err := bmp.Decoder{}.Decode(context.Background(), file, transcode.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(file), px.Mode, px.Pix)
	// Output: 58 RGB [255 0 0]
}
