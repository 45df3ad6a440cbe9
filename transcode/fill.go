package transcode

import "context"

// Layout says where in a slice the samples of a picture lie: sample c of the pixel
// at x, y begins at Base + y*Row + x*Pixel + c*Channel, all in bytes. Samples of 16
// bits are little-endian.
type Layout struct {
	Base, Row, Pixel, Channel int
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
	// Fill decodes a whole file whose header is known to say what info says. Unless
	// it fails it sets every sample: dst may hold anything.
	Fill(ctx context.Context, src []byte, lim Limits, info Info, dst []byte, at Layout) error
}

// Place writes samples where they are wanted: for decoders that cannot. The picture
// has to be of the size and mode that info says.
func Place(px *Pixels, info Info, dst []byte, at Layout) error {
	if px.Width != info.Width || px.Height != info.Height || px.Mode != info.Mode {
		return Errorf(ErrInternal, "a picture of mode %v, %d×%d, where the header says %v, %d×%d",
			px.Mode, px.Width, px.Height, info.Mode, info.Width, info.Height)
	}
	from, size, channels := LayoutOf(px), px.Type.Size(), px.Mode.Channels()
	for y := range px.Height {
		in, out := from.Base+y*from.Row, at.Base+y*at.Row
		if from.Pixel == at.Pixel && from.Channel == at.Channel && from.Pixel == channels*size {
			copy(dst[out:out+px.Width*at.Pixel], px.Pix[in:])
			continue
		}
		for range px.Width {
			for c := range channels {
				copy(dst[out+c*at.Channel:][:size], px.Pix[in+c*from.Channel:])
			}
			in, out = in+from.Pixel, out+at.Pixel
		}
	}
	return nil
}

// fill makes the result of steps that only decode and put a header in front; ok is
// false where there is more to do, or no decoder for it.
func (p Plan) fill(ctx context.Context, steps []Applied, src []byte, alloc Alloc) (file []byte, ok bool, err error) {
	if len(steps) < 2 || steps[0].Kind != p.registry.decode {
		return nil, false, nil
	}
	decoder, ok := p.registry.decoder(p.source.Format).(Filler)
	last := steps[len(steps)-1].Kind
	planar := len(steps) == 3 && steps[1].Kind.Planar
	if !ok || last.Frame == nil || len(steps) > 2 && !planar {
		return nil, false, nil
	}
	decoded := steps[0].Out
	file, at, ok := last.Frame(&Pixels{
		Width: decoded.Width, Height: decoded.Height, Mode: decoded.Mode, Type: decoded.Type, Planar: planar,
	}, alloc)
	if !ok {
		return nil, false, nil
	}
	return file, true, decoder.Fill(ctx, src, p.registry.limits, p.source, file, at)
}
