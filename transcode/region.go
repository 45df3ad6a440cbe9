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
