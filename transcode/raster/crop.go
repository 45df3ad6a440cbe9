package raster

import (
	"context"
	"image"

	"github.com/pipefs/pipefs/transcode"
)

// Crop is the step `crop`: the square in the middle.
func Crop() *transcode.Kind {
	return &transcode.Kind{
		Name: "crop", Min: 1, Max: maxSide,
		Brief: "cut out the square of this side in the middle, as torchvision's CenterCrop; what is missing is 0",
		From:  transcode.Picture | transcode.Tensor, ID: "crop1", Effect: transcode.Geometric,
		Shape: func(in transcode.Shape, side int) (transcode.Shape, bool) {
			out := in
			out.Width, out.Height = side, side
			return out, out != in
		},
		// What is missing around the middle of the picture is missing around the middle
		// of the region.
		Region: func(in transcode.Shape, c transcode.Call) image.Rectangle {
			x, _, width := span(in.Width, c.Arg)
			y, _, height := span(in.Height, c.Arg)
			return image.Rect(x, y, x+width, y+height)
		},
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			if err := c.Limits.CheckSize(c.Arg, c.Arg); err != nil {
				return transcode.Payload{}, err
			}
			return transcode.Payload{Pixels: CenterCrop(in.Pixels, c.Arg)}, nil
		},
	}
}

// CenterCrop cuts the square of the given side out of the middle of px. Where px
// is smaller, zeros stand around it; where it is that square, the result is px.
func CenterCrop(px *transcode.Pixels, side int) *transcode.Pixels {
	if px.Width == side && px.Height == side {
		return px
	}
	out := like(px, side, side)
	size := px.Mode.Channels() * px.Type.Size()
	fromX, toX, width := span(px.Width, side)
	fromY, toY, height := span(px.Height, side)
	for y := range height {
		src := px.Pix[(fromY+y)*px.RowBytes()+fromX*size:]
		copy(out.Pix[(toY+y)*out.RowBytes()+toX*size:][:width*size], src)
	}
	return out
}

// span places a window of the given length on a picture's side: where reading
// and writing start, and how many pixels there are. The halves that are left
// round as in torchvision: padding down, cropping to even.
func span(in, side int) (from, to, n int) {
	if in < side {
		return 0, (side - in) / 2, in
	}
	odd := in - side
	from = odd / 2
	if odd%2 == 1 && from%2 == 1 {
		from++
	}
	return from, 0, side
}
