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

// toRGB makes RGB of a picture of any mode. It drops alpha, and of colours that have 16 bits
// it takes the upper 8. Grey of 16 bits is cut off at 255: Pillow does not scale it.
func toRGB(px *transcode.Pixels, from transcode.Format) *transcode.Pixels {
	switch px.Mode {
	case transcode.ModeP:
		return toMode(px, transcode.ModeRGB)
	case transcode.ModeBit:
		px = toMode(px, transcode.ModeL)
	}
	byteOf := func(b []byte) byte { return b[0] }
	switch {
	case px.Mode == transcode.ModeI16:
		byteOf = func(b []byte) byte { return byte(min(binary.LittleEndian.Uint16(b), 255)) }
	case px.Type == transcode.Uint16 && from == transcode.PNM: // Pillow rounds these
		byteOf = func(b []byte) byte { return byte((uint32(binary.LittleEndian.Uint16(b)) + 128) / 257) }
	case px.Type == transcode.Uint16:
		byteOf = func(b []byte) byte { return b[1] }
	}
	out := *px
	out.Mode, out.Type = transcode.ModeRGB, transcode.Uint8
	out.Pix = make([]byte, out.Len())
	pixel, size := px.RowBytes()/px.Width, px.Type.Size()
	step := size // to the next colour
	if pixel < 3*size {
		step = 0
	}
	for dst, src := out.Pix, px.Pix; len(dst) >= 3; dst, src = dst[3:], src[pixel:] {
		dst[0], dst[1], dst[2] = byteOf(src), byteOf(src[step:]), byteOf(src[2*step:])
	}
	return &out
}
