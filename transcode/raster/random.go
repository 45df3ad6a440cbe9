package raster

import (
	"context"
	"fmt"
	"image"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

// The bounds of RandomResizedCrop where no word says others.
const (
	leastScale, mostScale = 0.08, 1.0
	leastRatio, mostRatio = 3.0 / 4, 4.0 / 3
)

// The words of `rrc`, by their places in Kind.Words.
const (
	scaleWord = iota
	ratioWord
	cubicWord
)

// RandomResizedCrop is the step `rrc`: a box of random size, shape and place, scaled to a
// square. It draws as torchvision.transforms.RandomResizedCrop.get_params does, which
// follows Szegedy et al., Going Deeper with Convolutions, CVPR 2015, Section 6.
func RandomResizedCrop() *transcode.Kind {
	return &transcode.Kind{
		Name: "rrc", Min: 1, Max: maxSide,
		Words: []transcode.Word{
			scaleWord: {Name: "scale", Min: 1, Max: 100, Brief: "per cent of the picture's area, 8 to 100 without it"},
			ratioWord: {Name: "ratio", Min: 10, Max: 1000, Brief: "per cent, width over height, 3/4 to 4/3 without it"},
			cubicWord: {Name: cubicName, Brief: "scaled with Pillow's BICUBIC, BILINEAR without it"},
		},
		Brief: "a random box, scaled to the square of this side, as torchvision's RandomResizedCrop on a PIL image",
		From:  transcode.Picture, ID: "rrc1", Effect: transcode.Resampling,
		Shape: func(in transcode.Shape, side int) (transcode.Shape, bool) { return square(in, side) },
		Draw: func(in transcode.Shape, s transcode.Step, r *transcode.Random) transcode.Choice {
			return resizedCropBox(in.Width, in.Height, s, r)
		},
		Region: drawnBox,
		// 256 and 224 are the usual sizes.
		Center: func(side int) string { return fmt.Sprintf("resize%d-crop%d", side*8/7, side) },
		Apply: func(ctx context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			box := in
			box.Pixels = boxed(in, c.Choice)
			return scale(ctx, box, c, c.Arg, c.Arg)
		},
		Into: func(ctx context.Context, in transcode.Payload, c transcode.Call, mirror bool, dst []byte, at transcode.Layout) (bool, error) {
			box := drawnBox(in.Shape, c).Sub(in.Region.Min)
			return scaleInto(ctx, in, box, c, c.Arg, c.Arg, mirror, dst, at)
		},
	}
}

// square is the shape of a picture that was scaled to a square, even where it has that
// size already: other pixels are in it.
func square(in transcode.Shape, side int) (transcode.Shape, bool) {
	out := in
	if !in.Mask {
		var ok bool
		if out, ok = mixed(in); !ok {
			return in, false
		}
	}
	out.Width, out.Height = side, side
	return out, true
}

// resizedCropBox draws a box: ten times an area and a shape that may fit, and if none
// did, the largest box in the middle whose shape is within bounds.
func resizedCropBox(width, height int, s transcode.Step, r *transcode.Random) transcode.Choice {
	scaleFrom, scaleTo := percent(s.Words[scaleWord], leastScale, mostScale)
	ratioFrom, ratioTo := percent(s.Words[ratioWord], leastRatio, mostRatio)
	area := float64(width) * float64(height)
	wide := log(ratioTo / ratioFrom)
	for range 10 {
		target := area * r.Uniform(scaleFrom, scaleTo)
		ratio := ratioFrom * exp(float64(wide*r.Float()))
		w := int(math.RoundToEven(math.Sqrt(target * ratio)))
		h := int(math.RoundToEven(math.Sqrt(target / ratio)))
		if w > 0 && w <= width && h > 0 && h <= height {
			y := r.Upto(height - h)
			return transcode.Choice{X: r.Upto(width - w), Y: y, Width: w, Height: h}
		}
	}
	w, h := width, height
	switch ratio := float64(width) / float64(height); {
	case ratio < ratioFrom:
		h = int(math.RoundToEven(float64(w) / ratioFrom))
	case ratio > ratioTo:
		w = int(math.RoundToEven(float64(h) * ratioTo))
	}
	return transcode.Choice{X: (width - w) / 2, Y: (height - h) / 2, Width: max(w, 1), Height: max(h, 1)}
}

// log and exp are those of package math for numbers from 1/100 to 100, to a part in 10^14. The last
// bit of math's depends on the machine, and may change a box by a pixel.
func log(x float64) float64 {
	// 2 artanh((x-1)/(x+1)), of a square root that is near 1
	halvings := 1.0
	for x > 1.1 || x < 0.9 {
		x, halvings = math.Sqrt(x), halvings*2
	}
	t := (x - 1) / (x + 1)
	sum, power := 0.0, t
	for k := 1.0; k < 16; k += 2 {
		sum += float64(power / k)
		power = float64(float64(power*t) * t)
	}
	return halvings * 2 * sum
}

func exp(x float64) float64 {
	if x < 0 {
		return 1 / exp(-x)
	}
	sum, term := 1.0, 1.0
	for k := 1.0; k < 40; k++ {
		term = float64(term*x) / k
		sum += term
	}
	return sum
}

func percent(r transcode.Range, from, to float64) (float64, float64) {
	if r.Given {
		return float64(r.From) / 100, float64(r.To) / 100
	}
	return from, to
}

// RandomCrop is the step `randcrop`: a square at a random place, in its own size, as
// torchvision's RandomCrop with pad_if_needed.
func RandomCrop() *transcode.Kind {
	return &transcode.Kind{
		Name: "randcrop", Min: 1, Max: maxSide,
		Brief: "a square of this side at a random place, as torchvision's RandomCrop; what is missing is 0",
		From:  transcode.Picture, ID: "randcrop1", Effect: transcode.Geometric,
		Shape: func(in transcode.Shape, side int) (transcode.Shape, bool) {
			out := in
			out.Width, out.Height = side, side
			return out, true
		},
		Draw: func(in transcode.Shape, s transcode.Step, r *transcode.Random) transcode.Choice {
			y := place(in.Height, s.Arg, r)
			return transcode.Choice{X: place(in.Width, s.Arg, r), Y: y, Width: s.Arg, Height: s.Arg}
		},
		Region: drawnBox,
		Center: func(side int) string { return fmt.Sprintf("crop%d", side) },
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			if err := c.Limits.CheckSize(c.Arg, c.Arg); err != nil {
				return transcode.Payload{}, err
			}
			return transcode.Payload{Pixels: boxed(in, c.Choice)}, nil
		},
	}
}

// place draws where a side of a crop begins. A picture that is too short has as many
// pixels of 0 on both ends as it lacks.
func place(length, side int, r *transcode.Random) int {
	missing := max(side-length, 0)
	return r.Upto(length+2*missing-side) - missing
}

// Pad is the step `pad`.
func Pad() *transcode.Kind {
	return &transcode.Kind{
		Name: "pad", Min: 1, Max: maxSide / 2,
		Brief: "as many pixels of 0 on each edge; before randcrop32, what RandomCrop(32, padding=4) does is pad4",
		From:  transcode.Picture, ID: "pad1", Effect: transcode.Geometric,
		Shape: func(in transcode.Shape, n int) (transcode.Shape, bool) {
			out := in
			out.Width, out.Height = in.Width+2*n, in.Height+2*n
			return out, (transcode.Limits{}).CheckSize(out.Width, out.Height) == nil
		},
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			px := in.Pixels
			box := transcode.Choice{X: -c.Arg, Y: -c.Arg, Width: px.Width + 2*c.Arg, Height: px.Height + 2*c.Arg}
			if err := c.Limits.CheckSize(box.Width, box.Height); err != nil {
				return transcode.Payload{}, err
			}
			return transcode.Payload{Pixels: cut(px, box)}, nil
		},
	}
}

// drawnBox is the Region of a step that has drawn a box.
func drawnBox(_ transcode.Shape, c transcode.Call) image.Rectangle {
	b := c.Choice
	return image.Rect(b.X, b.Y, b.X+b.Width, b.Y+b.Height)
}

// boxed returns the pixels of a box, given the region that holds it as far as the picture
// does.
func boxed(in transcode.Payload, box transcode.Choice) *transcode.Pixels {
	px := in.Pixels
	box.X, box.Y = box.X-in.Region.Min.X, box.Y-in.Region.Min.Y
	if box.X == 0 && box.Y == 0 && box.Width == px.Width && box.Height == px.Height {
		return px
	}
	return cut(px, box)
}

// cut copies a box out of px. What lies over the edges is 0.
func cut(px *transcode.Pixels, box transcode.Choice) *transcode.Pixels {
	out := like(px, box.Width, box.Height)
	size := px.Mode.Channels() * px.Type.Size()
	x, width := max(box.X, 0), min(box.X+box.Width, px.Width)-max(box.X, 0)
	if width <= 0 {
		return out
	}
	for y := max(box.Y, 0); y < min(box.Y+box.Height, px.Height); y++ {
		to := (y-box.Y)*out.RowBytes() + (x-box.X)*size
		copy(out.Pix[to:][:width*size], px.Pix[y*px.RowBytes()+x*size:])
	}
	return out
}

// HFlip is the step `hflip`: half of the draws are mirrored.
func HFlip() *transcode.Kind {
	return &transcode.Kind{
		Name: "hflip", Brief: "left and right exchanged, in half of the draws, as torchvision's RandomHorizontalFlip",
		From: transcode.Picture, ID: "hflip1", Effect: transcode.Geometric, Mirrors: true,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) { return in, true },
		Draw: func(_ transcode.Shape, _ transcode.Step, r *transcode.Random) transcode.Choice {
			return transcode.Choice{Flip: r.Coin()}
		},
		Center: func(int) string { return "" },
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			if !c.Choice.Flip {
				return transcode.Payload{Pixels: in.Pixels}, nil
			}
			return transcode.Payload{Pixels: mirrored(in.Pixels)}, nil
		},
	}
}

// mirrored exchanges left and right.
func mirrored(px *transcode.Pixels) *transcode.Pixels {
	out := like(px, px.Width, px.Height)
	size := px.Mode.Channels() * px.Type.Size()
	for y := range px.Height {
		from, to := px.Pix[y*px.RowBytes():][:px.RowBytes()], out.Pix[y*px.RowBytes():][:px.RowBytes()]
		if size == 3 { // nearly all
			for i, j := 0, len(to)-3; j >= 0; i, j = i+3, j-3 {
				to[j], to[j+1], to[j+2] = from[i], from[i+1], from[i+2]
			}
			continue
		}
		for i, j := 0, len(to)-size; j >= 0; i, j = i+size, j-size {
			copy(to[j:j+size], from[i:])
		}
	}
	return out
}
