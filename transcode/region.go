package transcode

import (
	"context"
	"fmt"
	"image"
)

// RegionDecoder is a Decoder that can decode a region of a picture, a rectangle of its
// pixels, for less than all of it.
type RegionDecoder interface {
	// DecodeRegion decodes the pixels of r, which is not empty and lies within the
	// picture, of a whole file whose header is known to say what info says. They are the
	// pixels that Decode gives, bit for bit, and so is all else that it gives.
	//
	// It decodes every file that Decode decodes. A file that Decode refuses it refuses, too,
	// if that is cut short or its structure is broken; damage to data that only other pixels
	// come from may pass.
	DecodeRegion(ctx context.Context, src []byte, lim Limits, info Info, r image.Rectangle) (*Pixels, error)
}

// RowDecoder is a RegionDecoder of a format of raw samples, whose header says where each
// row lies.
type RowDecoder interface {
	RegionDecoder
	// Rows returns from where to where the rows from one on, up to and without another, lie
	// in a file of size bytes. DecodeRegion looks at these bytes and at head, which is how
	// the file begins, and at no others. ok is false where head does not tell.
	Rows(head []byte, size int64, from, to int) (begin, end int64, ok bool)
	// Lying returns these rows of a whole file as pixels that lie in src, which nobody may
	// change; nil where they do not lie there as DecodeRegion makes them. info and errors are
	// as those of DecodeRegion.
	Lying(src []byte, lim Limits, info Info, from, to int) (*Pixels, error)
}

// HeadLen is how much of a file has to be read to know where its rows lie.
const HeadLen = 4 << 10

// Part returns what the plan takes of a sample that need not be read whole, and nil of any
// other one. The function is given the first HeadLen bytes of the file, or as many as there
// are, and its size. The plan looks at these bytes and at those from begin to end; all
// others may hold anything.
func (p Plan) Part() func(head []byte, size int64) (begin, end int64) {
	if len(p.steps) < 2 || p.steps[0].Kind != p.registry.decode {
		return nil
	}
	decoder, ok := p.registry.decoder(p.source.Format).(RowDecoder)
	r := p.steps[1].region(p.steps[0].Out, p.registry.limits)
	if !ok || r.Empty() {
		return nil
	}
	return func(head []byte, size int64) (begin, end int64) {
		begin, end, ok := decoder.Rows(head, size, r.Min.Y, r.Max.Y)
		if !ok {
			return 0, size
		}
		return begin, end
	}
}

// call is how a plan calls a step.
func (s *Applied) call(lim Limits) Call {
	return Call{Step: s.Step, Nearest: s.Nearest, Limits: lim, Choice: s.Choice}
}

// region is what the step takes of a picture of shape in, empty where that is all.
func (s *Applied) region(in Shape, lim Limits) image.Rectangle {
	if s.Kind.Region == nil {
		return image.Rectangle{}
	}
	all := image.Rect(0, 0, in.Width, in.Height)
	if r := s.Kind.Region(in, s.call(lim)).Intersect(all); r != all {
		return r
	}
	return image.Rectangle{}
}

// Layout says where in a slice the samples of a picture lie: sample c of the pixel
// at x, y begins at Base + y*Row + x*Pixel + c*Channel, all in bytes. Samples of 16
// bits are little-endian.
type Layout struct {
	Base, Row, Pixel, Channel int
}

// At is the offset of a sample.
func (l Layout) At(x, y, c int) int { return l.Base + y*l.Row + x*l.Pixel + c*l.Channel }

// Target is memory for the samples of a picture of a known size. Its strides may be negative:
// the rows of a BMP go upwards, its channels backwards.
type Target struct {
	Pix []byte
	Layout
}

// Interleaved is memory with the layout of [Pixels]: row by row without gaps, pixel by pixel.
// size is the number of bytes a sample takes.
func Interleaved(pix []byte, width, channels, size int) Target {
	return Target{pix, Layout{Row: width * channels * size, Pixel: channels * size, Channel: size}}
}

// Check returns an error unless all samples of a picture lie within Pix.
func (t *Target) Check(width, height, channels, size int) error {
	low, high := t.Base, t.Base+size
	for _, d := range [][2]int{{t.Row, height}, {t.Pixel, width}, {t.Channel, channels}} {
		if span := d[0] * (d[1] - 1); span < 0 {
			low += span
		} else {
			high += span
		}
	}
	if width < 1 || height < 1 || channels < 1 || low < 0 || high > len(t.Pix) {
		return fmt.Errorf("a picture of %d×%d×%d samples of %d bytes takes bytes %d to %d of %d", width, height, channels, size, low, high, len(t.Pix))
	}
	return nil
}

// From is the target whose first pixel is the one at x, y.
func (t *Target) From(x, y int) Target {
	from := *t
	from.Base = t.At(x, y, 0)
	return from
}

// LayoutOf is the layout of px.Pix.
func LayoutOf(px *Pixels) Layout {
	size := px.Type.Size()
	if px.Planar {
		return Layout{Row: px.Width * size, Pixel: size, Channel: px.Width * px.Height * size}
	}
	return Layout{Row: px.RowBytes(), Pixel: px.Mode.Channels() * size, Channel: size}
}

// Alloc returns n bytes, which may hold anything.
type Alloc func(n int64) []byte

// newBytes is the Alloc of callers who have no memory to use again.
func newBytes(n int64) []byte { return make([]byte, n) }

// Filler is a Decoder that can write samples where they are wanted, so that a file
// of raw samples takes no second pass over them.
type Filler interface {
	// Fill decodes the region r of a file, as [RegionDecoder] does. Unless it fails it
	// sets every sample: dst may hold anything. at says where the pixels of r go.
	Fill(ctx context.Context, src []byte, lim Limits, info Info, r image.Rectangle, dst []byte, at Layout) error
}

// Place writes the samples of a rectangle of px where they are wanted: for decoders that
// cannot.
func Place(px *Pixels, r image.Rectangle, dst []byte, at Layout) {
	from, size, channels := LayoutOf(px), px.Type.Size(), px.Mode.Channels()
	for y := range r.Dy() {
		in, out := from.Base+(r.Min.Y+y)*from.Row+r.Min.X*from.Pixel, at.Base+y*at.Row
		if from.Pixel == at.Pixel && from.Channel == at.Channel && from.Pixel == channels*size {
			copy(dst[out:out+r.Dx()*at.Pixel], px.Pix[in:])
			continue
		}
		if size == 1 {
			for c := range channels {
				for x := range r.Dx() {
					dst[out+x*at.Pixel+c*at.Channel] = px.Pix[in+x*from.Pixel+c*from.Channel]
				}
			}
			continue
		}
		for range r.Dx() {
			for c := range channels {
				copy(dst[out+c*at.Channel:][:size], px.Pix[in+c*from.Channel:])
			}
			in, out = in+from.Pixel, out+at.Pixel
		}
	}
}

// filling is how a decoder makes the file that the steps end in.
type filling struct {
	Filler
	region image.Rectangle
	planar bool
}

// filling returns how steps that only decode, cut, and put a header in front are done at once; ok is
// false where there is more to do, or no decoder for it.
func (p Plan) filling(steps []Applied) (f filling, ok bool) {
	if len(steps) < 2 || steps[0].Kind != p.registry.decode {
		return f, false
	}
	f.Filler, ok = p.registry.decoder(p.source.Format).(Filler)
	decoded, rest := steps[0].Out, steps[1:]
	f.region = image.Rect(0, 0, decoded.Width, decoded.Height)
	// A step that moves pixels does nothing but cut if the region is as large as its result.
	if r, out := rest[0].region(decoded, p.registry.limits), rest[0].Out; rest[0].Kind.Effect == Geometric && r.Dx() == out.Width && r.Dy() == out.Height {
		f.region, rest = r, rest[1:]
	}
	f.planar = len(rest) == 2 && rest[0].Kind.Planar
	return f, ok && steps[len(steps)-1].Kind.Frame != nil && (len(rest) < 2 || f.planar)
}

// fill makes the result of steps that are done at once; ok is false where they are not.
func (p Plan) fill(ctx context.Context, steps []Applied, src []byte, alloc Alloc) (file []byte, ok bool, err error) {
	f, ok := p.filling(steps)
	if !ok {
		return nil, false, nil
	}
	decoded := steps[0].Out
	file, at, ok := steps[len(steps)-1].Kind.Frame(&Pixels{
		Width: f.region.Dx(), Height: f.region.Dy(), Mode: decoded.Mode, Type: decoded.Type, Planar: f.planar,
	}, alloc)
	if !ok {
		return nil, false, nil
	}
	return file, true, f.Fill(ctx, src, p.registry.limits, p.source, f.region, file, at)
}

// inPlace makes the result of steps that decode raw samples and then only resample them: these are
// taken from where they lie in the file. ok is false where there is more to do, or they do not
// lie there as they are.
func (p Plan) inPlace(ctx context.Context, steps []Applied, src []byte, alloc Alloc) (file []byte, ok bool, err error) {
	if len(steps) < 3 || steps[0].Kind != p.registry.decode || steps[1].Kind.Into == nil {
		return nil, false, nil
	}
	decoder, ok := p.registry.decoder(p.source.Format).(RowDecoder)
	if !ok {
		return nil, false, nil
	}
	rows := image.Rect(0, 0, p.source.Width, p.source.Height)
	if r := steps[1].region(steps[0].Out, p.registry.limits); !r.Empty() {
		rows.Min.Y, rows.Max.Y = r.Min.Y, r.Max.Y
	}
	px, err := decoder.Lying(src, p.registry.limits, p.source, rows.Min.Y, rows.Max.Y)
	if px == nil {
		return nil, false, err
	}
	in := Payload{Shape: steps[0].Out, Pixels: px, Region: rows}
	return steps[1].last(ctx, in, steps[1].call(p.registry.limits), steps[2:], alloc)
}

// last makes the file that the plan ends in where nothing but mirroring, changes in place and
// a header follow: the step writes its pixels into the file. ok is false where it does not.
func (s *Applied) last(ctx context.Context, in Payload, c Call, rest []Applied, alloc Alloc) (file []byte, ok bool, err error) {
	mirror := false
	if len(rest) > 1 && rest[0].Kind.Mirrors {
		mirror, rest = rest[0].Choice.Flip, rest[1:]
	}
	changes := rest
	for len(rest) > 1 && rest[0].Kind.Change != nil {
		rest = rest[1:]
	}
	changes = changes[:len(changes)-len(rest)]
	if s.Kind.Into == nil || len(rest) != 1 || rest[0].Kind.Frame == nil {
		return nil, false, nil
	}
	made := &Pixels{Width: s.Out.Width, Height: s.Out.Height, Mode: s.Out.Mode, Type: s.Out.Type}
	file, at, ok := rest[0].Kind.Frame(made, alloc)
	together := LayoutOf(made)
	if together.Base = at.Base; len(changes) > 0 && at != together {
		return nil, false, nil
	}
	if ok {
		ok, err = s.Kind.Into(ctx, in, c, mirror, file, at)
	}
	if ok && err == nil && len(changes) > 0 {
		made.Pix = file[at.Base:][:made.Len()]
		for i := range changes {
			changes[i].Kind.Change(made, changes[i].call(c.Limits))
		}
	}
	return file, ok, err
}

// PixelPrefix is a prefix of a plan whose result may be stored as a file of raw samples:
// what the plan can go on from, in place of the sample.
type PixelPrefix struct {
	Key   string // of the representation
	Steps int    // of the plan, that it stands for
	// Stored is the plan that makes the representation.
	Stored Plan
	// Rest makes of the representation what the plan makes of the sample.
	Rest Plan
}

// PixelPrefixes are those of a plan, the shortest first; the plan itself is not among them.
// There are some where it passes through 8-bit RGB pixels, which every format of raw samples
// holds exactly, and ends in such a format, which has no metadata.
func (p Plan) PixelPrefixes() (found []PixelPrefix) {
	last := len(p.steps) - 1
	if last < 1 || p.steps[last].Kind.Frame == nil {
		return nil
	}
	upright := p.steps[last].Out.Orientation
	for n := 1; n <= last && p.steps[n-1].Kind.Draw == nil; n++ {
		at := p.steps[n-1].Out
		// What turns the picture upright needs its metadata.
		if at.Stage != Picture || at.Mode != ModeRGB || at.Type != Uint8 || at.Transparent || at.Mask || at.Orientation != upright {
			continue
		}
		for _, k := range p.registry.ordered {
			if k.Frame == nil || p.registry.decoder(k.Format) == nil || n == last && k == p.steps[last].Kind {
				continue
			}
			if out, ok := k.Shape(at, 0); ok {
				found = append(found, p.pixelPrefix(n, Applied{Step: Step{Kind: k}, Out: out}))
			}
		}
	}
	return found
}

// pixelPrefix is the prefix of n steps, written by one more.
func (p Plan) pixelPrefix(n int, write Applied) PixelPrefix {
	stored, rest := p, p
	stored.steps = append(p.steps[:n:n], write)
	decoded := p.steps[n-1].Out
	rest.source = decoded.Info
	rest.source.Format = write.Kind.Format
	rest.steps = append([]Applied{{Step: Step{Kind: p.registry.decode}, Out: decoded}}, p.steps[n:]...)
	return PixelPrefix{stored.Key(), n, stored, rest}
}
