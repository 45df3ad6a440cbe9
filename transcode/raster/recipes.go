package raster

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// Recipes are the steps that draw what torchvision's transforms of the same names draw, and then
// give its pixels, on Pillow. Numbers are per cent, but for sizes, thresholds and those of
// randaug.
func Recipes() []*transcode.Kind {
	kinds := []*transcode.Kind{
		{
			Name: "trivialaugment", ID: "trivialaugment1", Warps: true, Draw: drawTrivialAugment,
			Brief: "as torchvision's TrivialAugmentWide with BILINEAR",
		},
		{
			Name: "randaug", Min: 1, Max: 10, More: []transcode.Word{{Name: "the magnitude", Max: 30}}, ID: "randaug1", Usual: "randaug2_9",
			Warps: true, Draw: drawRandAugment,
			Brief: "so many operations of a magnitude from 0 to 30, as torchvision's RandAugment with BILINEAR",
		},
		{
			Name: "autoaugment", ID: "autoaugment1", Warps: true, Draw: drawAutoAugment,
			Brief: "as torchvision's AutoAugment of ImageNet with BILINEAR",
		},
		{
			Name: "colorjitter", Max: 100, ID: "colorjitter1", Usual: "colorjitter40_40_40_10", Words: share, Draw: drawColorJitter,
			More:  []transcode.Word{{Name: "the contrast", Max: 100}, {Name: "the saturation", Max: 100}, {Name: "the hue", Max: 50}},
			Brief: "per cent of brightness, contrast, saturation and hue, as torchvision's ColorJitter",
		},
		{
			Name: "randgrey", Min: 1, Max: 100, ID: "randgrey1", Usual: "randgrey20",
			Draw: func(_ transcode.Shape, s transcode.Step, r *transcode.Random) transcode.Choice {
				return sometimes(s.Arg, r, func() []transcode.Op { return []transcode.Op{{Name: "grey"}} })
			},
			Brief: "three equal channels, in so many per cent of the draws, as torchvision's RandomGrayscale",
		},
		{
			Name: "blur", Min: 3, Max: maxBlur, Odd: true, ID: "blur1", Usual: "blur23", Words: share,
			Draw: func(_ transcode.Shape, s transcode.Step, r *transcode.Random) transcode.Choice {
				return sometimes(shareOf(s), r, func() []transcode.Op {
					return []transcode.Op{{Name: "blur", By: single(r.Uniform(.1, 2))}}
				})
			},
			Brief: "a kernel of this size, as torchvision's GaussianBlur, but for 1 of 255",
		},
		{
			Name: "solarize", Max: 255, ID: "solarize1", Usual: "solarize128p20", Words: share,
			Draw: func(_ transcode.Shape, s transcode.Step, r *transcode.Random) transcode.Choice {
				return sometimes(shareOf(s), r, func() []transcode.Op {
					return []transcode.Op{{Name: "solarize", By: float64(s.Arg)}}
				})
			},
			Brief: "values from this one on inverted, as torchvision's RandomSolarize",
		},
		{
			Name: "erase", Min: 1, Max: 100, ID: "erase1", Usual: "erase10", Draw: drawErase,
			Brief: "a box of ImageNet's mean colour, in so many per cent of the draws, as torchvision's RandomErasing after Normalize",
		},
	}
	for _, k := range kinds {
		k.From, k.Effect = transcode.Picture, transcode.Lossy
		k.Shape = func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			return in, in.Mask || in.Mode == transcode.ModeRGB || in.Mode == transcode.ModeL
		}
		draw := k.Draw
		k.Draw = func(in transcode.Shape, s transcode.Step, r *transcode.Random) transcode.Choice {
			c := draw(in, s, r)
			if in.Mask {
				c.Ops = slices.DeleteFunc(c.Ops, func(op transcode.Op) bool { return !slices.Contains(moving, op.Name) })
			}
			return c
		}
		k.Center = func(int) string { return "" }
		k.Change = operate
		k.Apply = func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			px := *in.Pixels
			px.Pix = slices.Clone(px.Pix)
			operate(&px, c)
			return transcode.Payload{Pixels: &px}, nil
		}
	}
	return kinds
}

// share says how often the step does anything: torchvision's RandomApply.
var share = []transcode.Word{{Name: "p", Min: 1, Max: 100, Single: true, Brief: "in so many per cent of the draws; 100 without it"}}

func shareOf(s transcode.Step) int {
	if s.Words[0].Given {
		return s.Words[0].From
	}
	return 100
}

func sometimes(percent int, r *transcode.Random, draw func() []transcode.Op) (c transcode.Choice) {
	if r.Float() < float64(percent)/100 {
		c.Ops = draw()
	}
	return c
}

// single rounds to float32, in which torchvision draws.
func single(v float64) float64 { return float64(float32(v)) }

func drawColorJitter(_ transcode.Shape, s transcode.Step, r *transcode.Random) transcode.Choice {
	return sometimes(shareOf(s), r, func() (ops []transcode.Op) {
		of := [...]int{s.Arg, s.More[0], s.More[1], s.More[2]}
		order := [...]int{0, 1, 2, 3}
		for i := 3; i > 0; i-- {
			j := r.Upto(i)
			order[i], order[j] = order[j], order[i]
		}
		for _, i := range order {
			by := float64(of[i]) / 100
			switch {
			case by == 0:
			case i == 3:
				ops = append(ops, transcode.Op{Name: "hue", By: single(r.Uniform(-by, by))})
			default:
				ops = append(ops, transcode.Op{Name: [...]string{"brightness", "contrast", "saturation"}[i], By: single(r.Uniform(1-by, 1+by))})
			}
		}
		return ops
	})
}

// drawErase draws a box, ten times if it does not fit. The defaults are torchvision's.
func drawErase(in transcode.Shape, s transcode.Step, r *transcode.Random) (c transcode.Choice) {
	const leastScale, mostScale, leastRatio, mostRatio = .02, .33, .3, 3.3
	if r.Float() >= float64(s.Arg)/100 {
		return c
	}
	area, wide := float64(in.Width)*float64(in.Height), log(mostRatio/leastRatio)
	for range 10 {
		target := area * r.Uniform(leastScale, mostScale)
		ratio := leastRatio * exp(float64(wide*r.Float()))
		h := int(math.RoundToEven(math.Sqrt(target * ratio)))
		w := int(math.RoundToEven(math.Sqrt(target / ratio)))
		if h < in.Height && w < in.Width {
			y := r.Upto(in.Height - h)
			return transcode.Choice{X: r.Upto(in.Width - w), Y: y, Width: w, Height: h, Ops: []transcode.Op{{Name: "erase"}}}
		}
	}
	return c
}

// meanColour of ImageNet is what Normalize makes 0 of, as nearly as bytes can: .485, .456, .406.
// The last value is its grey.
var meanColour = [4]byte{124, 116, 104, 117}

// moving are the operations that move pixels. A mask follows them.
var moving = []string{"shearx", "sheary", "translatex", "translatey", "rotate"}

// operate does what was drawn.
func operate(px *transcode.Pixels, c transcode.Call) {
	p := bitmap{Pix: px.Pix, Width: px.Width, Height: px.Height, Channels: px.Mode.Channels(), Bytes: px.Type.Size(), Nearest: c.Nearest}
	for _, op := range c.Choice.Ops {
		factor := float32(op.By)
		switch op.Name {
		case "identity":
		case "brightness":
			p.Brightness(factor)
		case "contrast":
			p.Contrast(factor)
		case "saturation":
			p.Saturation(factor)
		case "sharpness":
			p.Sharpness(factor)
		case "hue":
			p.Hue(int(op.By * 255))
		case "grey":
			p.Grey()
		case "posterize":
			p.Posterize(int(op.By))
		case "solarize":
			p.Solarize(op.By)
		case "autocontrast":
			p.Autocontrast()
		case "equalize":
			p.Equalize()
		case "invert":
			p.Invert()
		case "shearx":
			p.ShearX(op.By)
		case "sheary":
			p.ShearY(op.By)
		case "translatex":
			p.Translate(int(op.By), 0)
		case "translatey":
			p.Translate(0, int(op.By))
		case "rotate":
			p.Rotate(op.By)
		case "blur":
			p.Blur(c.Arg, op.By)
		case "erase":
			colour := meanColour[:3]
			if p.Channels == 1 {
				colour = meanColour[3:]
			}
			p.Fill(c.Choice.X, c.Choice.Y, c.Choice.Width, c.Choice.Height, colour)
		default:
			panic(fmt.Sprintf("raster: no operation %q", op.Name))
		}
	}
}

// operation is one of a policy: what it draws its number from.
type operation struct {
	name string
	// The numbers lie evenly from the first to the second. Where both are 0 it takes none.
	from, to float64
	signed   bool // the number is negative in half of the draws
	factor   bool // the number is added to 1
	bits     bool // it is rounded, and taken from 8
}

// wide are the operations of TrivialAugmentWide, in its order.
var wide = []operation{
	{name: "identity"},
	{name: "shearx", to: .99, signed: true},
	{name: "sheary", to: .99, signed: true},
	{name: "translatex", to: 32, signed: true},
	{name: "translatey", to: 32, signed: true},
	{name: "rotate", to: 135, signed: true},
	{name: "brightness", to: .99, signed: true, factor: true},
	{name: "saturation", to: .99, signed: true, factor: true},
	{name: "contrast", to: .99, signed: true, factor: true},
	{name: "sharpness", to: .99, signed: true, factor: true},
	{name: "posterize", to: 6, bits: true},
	{name: "solarize", from: 255},
	{name: "autocontrast"},
	{name: "equalize"},
}

// narrow are those of RandAugment and AutoAugment for a picture, and invert, which only
// AutoAugment has.
func narrow(in transcode.Shape) []operation {
	return []operation{
		{name: "identity"},
		{name: "shearx", to: .3, signed: true},
		{name: "sheary", to: .3, signed: true},
		{name: "translatex", to: 150. / 331. * float64(in.Width), signed: true},
		{name: "translatey", to: 150. / 331. * float64(in.Height), signed: true},
		{name: "rotate", to: 30, signed: true},
		{name: "brightness", to: .9, signed: true, factor: true},
		{name: "saturation", to: .9, signed: true, factor: true},
		{name: "contrast", to: .9, signed: true, factor: true},
		{name: "sharpness", to: .9, signed: true, factor: true},
		{name: "posterize", to: 4, bits: true},
		{name: "solarize", from: 255},
		{name: "autocontrast"},
		{name: "equalize"},
		{name: "invert"},
	}
}

// op is the operation with number i of n.
func (o *operation) op(i, n int, negative bool) transcode.Op {
	by := evenly(o.from, o.to, i, n)
	if o.bits {
		by = 8 - math.RoundToEven(float64(i)/(float64(n-1)/o.to))
	}
	if o.signed && negative {
		by = -by
	}
	switch {
	case o.factor:
		by++
	case o.name == "translatex" || o.name == "translatey":
		by = math.Trunc(by)
	}
	return transcode.Op{Name: o.name, By: by + 0} // and not -0
}

// evenly is number i of n from one to another, as torch.linspace rounds it on processors that
// multiply and add at once.
func evenly(from, to float64, i, n int) float64 {
	first, last := float64(float32(from)), float64(float32(to))
	step := float64((float32(to) - float32(from)) / float32(n-1))
	if i <= (n-1)/2 {
		return single(first + float64(step*float64(i)))
	}
	return single(last - float64(step*float64(n-i-1)))
}

// magnitudes are how many numbers TrivialAugment and RandAugment take an operation's from.
const magnitudes = 31

func drawTrivialAugment(_ transcode.Shape, _ transcode.Step, r *transcode.Random) transcode.Choice {
	o, i := &wide[r.Upto(len(wide)-1)], r.Upto(magnitudes-1)
	return transcode.Choice{Ops: []transcode.Op{o.op(i, magnitudes, r.Coin())}}
}

func drawRandAugment(in transcode.Shape, s transcode.Step, r *transcode.Random) (c transcode.Choice) {
	all := narrow(in)
	all = all[:len(all)-1] // no invert
	for range s.Arg {
		o := &all[r.Upto(len(all)-1)]
		c.Ops = append(c.Ops, o.op(s.More[0], magnitudes, r.Coin()))
	}
	return c
}

// imagenet is AutoAugment's policy: two operations each, the share of the draws in tenths, and the
// number of ten.
var imagenet = [25][2]struct {
	name     string
	share, i int
}{
	{{"posterize", 4, 8}, {"rotate", 6, 9}},
	{{"solarize", 6, 5}, {"autocontrast", 6, 0}},
	{{"equalize", 8, 0}, {"equalize", 6, 0}},
	{{"posterize", 6, 7}, {"posterize", 6, 6}},
	{{"equalize", 4, 0}, {"solarize", 2, 4}},
	{{"equalize", 4, 0}, {"rotate", 8, 8}},
	{{"solarize", 6, 3}, {"equalize", 6, 0}},
	{{"posterize", 8, 5}, {"equalize", 10, 0}},
	{{"rotate", 2, 3}, {"solarize", 6, 8}},
	{{"equalize", 6, 0}, {"posterize", 4, 6}},
	{{"rotate", 8, 8}, {"saturation", 4, 0}},
	{{"rotate", 4, 9}, {"equalize", 6, 0}},
	{{"equalize", 0, 0}, {"equalize", 8, 0}},
	{{"invert", 6, 0}, {"equalize", 10, 0}},
	{{"saturation", 6, 4}, {"contrast", 10, 8}},
	{{"rotate", 8, 8}, {"saturation", 10, 2}},
	{{"saturation", 8, 8}, {"solarize", 8, 7}},
	{{"sharpness", 4, 7}, {"invert", 6, 0}},
	{{"shearx", 6, 5}, {"equalize", 10, 0}},
	{{"saturation", 4, 0}, {"equalize", 6, 0}},
	{{"equalize", 4, 0}, {"solarize", 2, 4}},
	{{"solarize", 6, 5}, {"autocontrast", 6, 0}},
	{{"invert", 6, 0}, {"equalize", 10, 0}},
	{{"saturation", 6, 4}, {"contrast", 10, 8}},
	{{"equalize", 8, 0}, {"equalize", 6, 0}},
}

func drawAutoAugment(in transcode.Shape, _ transcode.Step, r *transcode.Random) (c transcode.Choice) {
	policy := &imagenet[r.Upto(len(imagenet)-1)]
	all := narrow(in)
	for _, p := range policy {
		applies, negative := r.Float()*10 < float64(p.share), r.Coin()
		for i := range all {
			if applies && all[i].name == p.name {
				c.Ops = append(c.Ops, all[i].op(p.i, 10, negative))
			}
		}
	}
	return c
}

// maxSegment is the most that a JPEG segment holds, in bytes.
const maxSegment = 65533

// JPEG is the step `jpeg`: lossy, of the quality in the argument. The encoder is
// Go's own, so that all machines make the same bytes; they depend on Go's
// version, which therefore is part of the step's ID.
func JPEG() *transcode.Kind {
	return &transcode.Kind{
		Name: "jpeg", Min: 1, Max: 100,
		Brief: "JPEG of this quality, 4:2:0; grey stays grey",
		From:  transcode.Picture, To: transcode.File, Effect: transcode.Lossy,
		ID:     "stdjpeg1/" + strings.NewReplacer(" ", "+", ",", "+").Replace(runtime.Version()),
		Format: transcode.JPEG, Ext: "jpg",
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Format, out.Stage = transcode.JPEG, transcode.File
			return out, (in.Mode == transcode.ModeRGB || in.Mode == transcode.ModeL) && !in.Transparent &&
				in.Type == transcode.Uint8 && in.Width <= 65535 && in.Height <= 65535
		},
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			b, err := EncodeJPEG(in.Pixels, c.Arg)
			return transcode.Payload{Bytes: b}, err
		},
	}
}

// EncodeJPEG encodes a picture of mode RGB or L with a quality from 1 to 100,
// and the metadata that fits.
func EncodeJPEG(px *transcode.Pixels, quality int) ([]byte, error) {
	if len(px.Pix) != px.Len() || px.Type != transcode.Uint8 || px.Planar {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	bounds := image.Rect(0, 0, px.Width, px.Height)
	var img image.Image
	switch px.Mode {
	case transcode.ModeL:
		img = &image.Gray{Pix: px.Pix, Stride: px.Width, Rect: bounds}
	case transcode.ModeRGB:
		rgba := image.NewRGBA(bounds)
		dst := rgba.Pix
		for src := px.Pix; len(src) >= 3 && len(dst) >= 4; src, dst = src[3:], dst[4:] {
			dst[0], dst[1], dst[2], dst[3] = src[0], src[1], src[2], 255
		}
		img = rgba
	default:
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a JPEG of mode %v", px.Mode)
	}
	out := &bytes.Buffer{}
	out.Write([]byte{0xff, 0xd8})
	writeMetadata(out, px.Meta)
	// The encoder begins with SOI. Metadata belongs right behind it, so what was
	// written takes its place.
	tail := &skipWriter{out: out, skip: 2}
	if err := jpeg.Encode(tail, img, &jpeg.Options{Quality: quality}); err != nil {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "%v", err)
	}
	return out.Bytes(), nil
}

// skipWriter drops the first bytes.
type skipWriter struct {
	out  *bytes.Buffer
	skip int
}

func (w *skipWriter) Write(b []byte) (int, error) {
	n := min(w.skip, len(b))
	w.skip -= n
	w.out.Write(b[n:])
	return len(b), nil
}

// writeMetadata writes APP1 and APP2. EXIF that fits no segment came from a
// format that holds more, and is left out.
func writeMetadata(out *bytes.Buffer, meta transcode.Metadata) {
	segment := func(marker byte, introduction string, data []byte) {
		length := 2 + len(introduction) + len(data)
		out.Write([]byte{0xff, marker, byte(length >> 8), byte(length)})
		out.WriteString(introduction)
		out.Write(data)
	}
	const exif = "Exif\x00\x00"
	if n := len(meta.EXIF); n > 0 && n <= maxSegment-len(exif) {
		segment(0xe1, exif, meta.EXIF)
	}
	const icc, most = "ICC_PROFILE\x00", maxSegment - 14
	count := (len(meta.ICC) + most - 1) / most
	if count > 255 {
		return
	}
	for i := range count {
		part := meta.ICC[i*most : min((i+1)*most, len(meta.ICC))]
		segment(0xe2, icc+string([]byte{byte(i + 1), byte(count)}), part)
	}
}
