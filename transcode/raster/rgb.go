package raster

import (
	"context"
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode"
)

// RGB is the step `rgb`: what torchvision's ImageFolder makes of every file that it reads.
func RGB() *transcode.Kind {
	return &transcode.Kind{
		Name: "rgb", Brief: "three channels of 8 bits, as Pillow's convert('RGB'), without alpha; says that all samples are pictures",
		From: transcode.Picture, ID: "rgb1", Effect: transcode.Lossy, Pictures: true,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Mode, out.Type, out.Transparent = transcode.ModeRGB, transcode.Uint8, false
			return out, in.Mode != transcode.ModeNone && out != in
		},
		Apply: func(_ context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			return transcode.Payload{Pixels: toRGB(in.Pixels, in.Shape.Format)}, nil
		},
	}
}

// toRGB makes RGB of a picture of any mode, and drops alpha. Of colours that have 16 bits Pillow
// takes the upper 8, or rounds in PPM files; grey of 16 bits it cuts off at 255.
func toRGB(px *transcode.Pixels, from transcode.Format) *transcode.Pixels {
	switch px.Mode {
	case transcode.ModeP:
		return toMode(px, transcode.ModeRGB)
	case transcode.ModeBit:
		px = toMode(px, transcode.ModeL)
	}
	src, pixel, next := px.Pix, px.Mode.Channels(), 1
	if px.Type == transcode.Uint16 {
		src = make([]byte, len(px.Pix)/2)
		for i := range src {
			v := uint32(binary.LittleEndian.Uint16(px.Pix[2*i:]))
			switch {
			case px.Mode == transcode.ModeI16:
				v = min(v, 255)
			case from == transcode.PNM:
				v = (v + 128) / 257
			default:
				v >>= 8
			}
			src[i] = byte(v)
		}
	}
	if pixel < 3 {
		next = 0 // one value for all colours
	}
	out := *px
	out.Mode, out.Type = transcode.ModeRGB, transcode.Uint8
	out.Pix = make([]byte, out.Len())
	for dst := out.Pix; len(dst) >= 3; dst, src = dst[3:], src[pixel:] {
		dst[0], dst[1], dst[2] = src[0], src[next], src[2*next]
	}
	return &out
}
