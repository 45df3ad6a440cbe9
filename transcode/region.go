package transcode

import (
	"context"
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
