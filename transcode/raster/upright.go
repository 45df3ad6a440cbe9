package raster

import (
	"context"

	"github.com/pipefs/pipefs/transcode"
)

// UprightKind is the step `upright`: the orientation of EXIF applied.
func UprightKind() *transcode.Kind {
	return &transcode.Kind{
		Name: "upright", Brief: "turn the picture as its EXIF orientation says",
		From: transcode.Picture, ID: "upright1", Effect: transcode.Geometric,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			if in.Orientation >= 5 {
				out.Width, out.Height = in.Height, in.Width
			}
			out.Orientation = 1
			return out, in.Orientation > 1
		},
		Apply: func(_ context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			return transcode.Payload{Pixels: Upright(in.Pixels, in.Shape.Orientation)}, nil
		},
	}
}

// Upright applies an EXIF orientation, 1 to 8; others count as 1. The metadata
// of the result says that nothing is left to turn.
func Upright(px *transcode.Pixels, orientation uint8) *transcode.Pixels {
	out := *px
	out.Meta.EXIF, out.Meta.Orientation = transcode.EXIFUpright(px.Meta.EXIF), 1
	if orientation < 2 || orientation > 8 {
		return &out
	}
	if orientation >= 5 {
		out.Width, out.Height = px.Height, px.Width
	}
	out.Pix = make([]byte, out.Len())
	size := px.Mode.Channels() * px.Type.Size()
	// Where in px the result begins, and the way to the next pixel and row, all
	// in bytes.
	right, down := size, px.RowBytes()
	lastX, lastY := (px.Width-1)*right, (px.Height-1)*down
	var start, stepX, stepY int
	switch orientation {
	case 2: // mirrored
		start, stepX, stepY = lastX, -right, down
	case 3: // upside down
		start, stepX, stepY = lastX+lastY, -right, -down
	case 4: // mirrored upside down
		start, stepX, stepY = lastY, right, -down
	case 5: // mirrored along the diagonal
		start, stepX, stepY = 0, down, right
	case 6: // to be turned clockwise
		start, stepX, stepY = lastY, -down, right
	case 7: // mirrored along the other diagonal
		start, stepX, stepY = lastX+lastY, -down, -right
	case 8: // to be turned counterclockwise
		start, stepX, stepY = lastX, down, -right
	}
	dst := out.Pix
	for y := range out.Height {
		from := start + y*stepY
		for range out.Width {
			copy(dst[:size], px.Pix[from:from+size])
			dst = dst[size:]
			from += stepX
		}
	}
	return &out
}
