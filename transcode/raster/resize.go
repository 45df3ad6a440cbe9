package raster

import (
	"context"
	"image"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/raster/internal/resample"
)

// maxSide bounds the argument of `resize` and `crop`.
const maxSide = 8192

// Resize is the step `resize`: the shorter side gets the length of the argument,
// the longer one follows.
func Resize() *transcode.Kind {
	k := Scaling("resize", "resize1", resized)
	k.Min, k.Max = 1, maxSide
	k.Brief = "scale the shorter side to this many pixels, as torchvision's Resize on a PIL image"
	return k
}

// Scaling is a step that gives pictures the size that a rule says, as Pillow's
// resize(BILINEAR) does, and masks by nearest neighbour.
func Scaling(name, id string, rule func(width, height, arg int) (int, int)) *transcode.Kind {
	return &transcode.Kind{
		Name: name, From: transcode.Picture, ID: id, Effect: transcode.Resampling,
		Shape: func(in transcode.Shape, arg int) (transcode.Shape, bool) {
			width, height := rule(in.Width, in.Height, arg)
			return scaledShape(in, width, height)
		},
		Apply: func(ctx context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			width, height := rule(in.Pixels.Width, in.Pixels.Height, c.Arg)
			return scale(ctx, in, c, width, height)
		},
		Into: func(ctx context.Context, in transcode.Payload, c transcode.Call, mirror bool, dst []byte, at transcode.Layout) (bool, error) {
			width, height := rule(in.Pixels.Width, in.Pixels.Height, c.Arg)
			return scaleInto(ctx, in, in.Pixels.Bounds(), c, width, height, mirror, dst, at)
		},
	}
}

func scaledShape(in transcode.Shape, width, height int) (transcode.Shape, bool) {
	out := in
	if !in.Mask {
		var ok bool
		if out, ok = mixed(in); !ok {
			return in, false
		}
	}
	out.Width, out.Height = width, height
	// A sliver may become too large. The limits in force come with Apply only, so
	// it is the default one that decides here.
	if (transcode.Limits{}).CheckSize(out.Width, out.Height) != nil {
		return in, false
	}
	return out, out != in // a picture that has this size already stays as it is
}

// resized is torchvision's rule for the size.
func resized(width, height, side int) (int, int) {
	if width <= height {
		return side, int(int64(side) * int64(height) / int64(width))
	}
	return int(int64(side) * int64(width) / int64(height)), side
}

func scale(ctx context.Context, in transcode.Payload, c transcode.Call, width, height int) (transcode.Payload, error) {
	if err := c.Limits.CheckSize(width, height); err != nil {
		return transcode.Payload{}, err
	}
	if c.Nearest {
		return transcode.Payload{Pixels: Nearest(in.Pixels, width, height)}, nil
	}
	px := toMode(in.Pixels, mixable(in.Pixels.Mode, in.Shape.Transparent))
	out, err := filtered(ctx, px, width, height, filterOf(c.Step))
	return transcode.Payload{Pixels: out}, err
}

// filterOf is the filter that a step scales with: the word cubic says another one.
func filterOf(s transcode.Step) resample.Filter {
	for i, w := range s.Kind.Words {
		if w.Name == cubicName && s.Words[i].Given {
			return resample.Bicubic
		}
	}
	return resample.Bilinear
}

// cubicName is the word that asks for Pillow's BICUBIC.
const cubicName = "cubic"

// scaleInto is scale of a box of the pixels that writes where the result is wanted, and mirrors it
// if that is wanted, too. It returns false where it cannot.
func scaleInto(ctx context.Context, in transcode.Payload, box image.Rectangle, c transcode.Call, width, height int, mirror bool, dst []byte, at transcode.Layout) (bool, error) {
	px := in.Pixels
	if box.Empty() || !box.In(px.Bounds()) || c.Nearest || px.Type != transcode.Uint8 || px.Planar || mixable(px.Mode, in.Shape.Transparent) != px.Mode ||
		at.Row < 0 || at.Pixel != px.Mode.Channels() || at.Channel != 1 {
		return false, nil
	}
	if err := c.Limits.CheckSize(width, height); err != nil {
		return false, err
	}
	to := resample.Image{Pix: dst[at.Base:], Stride: at.Row, Width: width, Height: height}
	from := resample.Of(px).Box(box.Min.X, box.Min.Y, box.Dx(), box.Dy(), px.Mode.Channels())
	return true, resample.Scale(ctx, to, from, px.Mode, filterOf(c.Step), mirror)
}

// Nearest scales px by taking the nearest pixel, as Pillow's NEAREST does. Any
// mode will do.
func Nearest(px *transcode.Pixels, width, height int) *transcode.Pixels {
	out := like(px, width, height)
	size := px.Mode.Channels() * px.Type.Size()
	columns, rows := nearest(px.Width, width), nearest(px.Height, height)
	for y, from := range rows {
		if y > 0 && rows[y-1] == from {
			copy(out.Pix[y*out.RowBytes():][:out.RowBytes()], out.Pix[(y-1)*out.RowBytes():])
			continue
		}
		row := px.Pix[from*px.RowBytes():][:px.RowBytes()]
		dst := out.Pix[y*out.RowBytes():][:out.RowBytes()]
		if size == 1 {
			for x, c := range columns {
				dst[x] = row[c]
			}
			continue
		}
		for x, c := range columns {
			copy(dst[x*size:][:size], row[c*size:])
		}
	}
	return out
}

// nearest lists the source position of each of out positions. Pillow adds up the
// step instead of multiplying, and so do we, rounding errors included.
func nearest(in, out int) []int {
	list := make([]int, out)
	step := float64(in) / float64(out)
	at := step * 0.5
	for i := range list {
		list[i] = min(int(at), in-1)
		at += step
	}
	return list
}

// filtered scales px with a filter that is widened when it makes smaller, so that every
// pixel counts; the result equals Pillow's resize bit for bit. The mode has to be L, LA,
// RGB or RGBA. Colours count as much as they are opaque. A picture that has the size
// already is returned as it is.
func filtered(ctx context.Context, px *transcode.Pixels, width, height int, f resample.Filter) (*transcode.Pixels, error) {
	if px.Type != transcode.Uint8 || px.Planar || mixable(px.Mode, false) != px.Mode {
		return nil, transcode.Errorf(transcode.ErrInternal, "resampling of mode %v", px.Mode)
	}
	if width == px.Width && height == px.Height {
		return px, nil
	}
	out := like(px, width, height)
	if err := resample.Scale(ctx, resample.Of(out), resample.Of(px), px.Mode, f, false); err != nil {
		return nil, err
	}
	return out, nil
}

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
