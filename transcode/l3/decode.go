package l3

import (
	"bytes"
	"hash/crc32"
	"image"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
	v1 "github.com/pipefs/pipefs/transcode/l3/internal/v1"
	v2 "github.com/pipefs/pipefs/transcode/l3/internal/v2"
)

// Decode decodes a whole file to interleaved pixels.
func Decode(src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	return decode(src, lim, (*Samples).Decode)
}

func decode(src []byte, lim transcode.Limits, samples func(*Samples, Target) error) (*transcode.Pixels, error) {
	s, err := Open(src, lim)
	if err != nil {
		return nil, err
	}
	return s.pixels(s.Width, s.Height, func(dst Target) error { return samples(s, dst) })
}

// pixels makes the picture of the samples that a function writes.
func (s *Samples) pixels(width, height int, samples func(Target) error) (*transcode.Pixels, error) {
	px := s.room(width, height)
	// Copies: the file must not be kept alive by what its header says.
	px.Meta = transcode.Metadata{EXIF: bytes.Clone(s.Meta.EXIF), ICC: bytes.Clone(s.Meta.ICC), Orientation: s.Meta.Orientation}
	return px, samples(interleaved(px))
}

// room is memory for pixels of the picture.
func (s *Samples) room(width, height int) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: s.Mode}
	if s.Mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	px.Pix = make([]byte, px.Len())
	return px
}

func interleaved(px *transcode.Pixels) Target {
	return layout.Interleaved(px.Pix, px.Width, px.Mode.Channels(), px.Type.Size())
}

// parse reads the header of a whole file, and checks that its pixels are within
// the limits.
func parse(src []byte, lim transcode.Limits) (Header, error) {
	h, err := ParseHeader(src)
	if err != nil {
		return h, err
	}
	if err := lim.CheckSize(h.Width, h.Height); err != nil {
		return h, err
	}
	if h.Version == 2 {
		return parseFile(src)
	}
	return h, nil
}

// Samples are a picture that is ready to be decoded: its Header and the bytes of its
// file.
type Samples struct {
	Header
	src []byte
}

// Open reads the header of a whole file.
func Open(src []byte, lim transcode.Limits) (*Samples, error) {
	h, err := parse(src, lim)
	if err != nil {
		return nil, err
	}
	return &Samples{h, src}, nil
}

// Decode writes all samples to dst, which has to have room for them.
func (s *Samples) Decode(dst Target) error {
	if err := dst.Check(s.Width, s.Height, s.Mode.Channels(), s.Mode.Depth()/8); err != nil {
		return transcode.Errorf(transcode.ErrInternal, "L3: %v", err)
	}
	return s.decode(dst, s.src)
}

// Rect is the place of patch i of a file of version 2.
func (s *Samples) Rect(i int) (x, y, width, height int) { return s.rect(i) }

func (h *Header) decode(dst Target, src []byte) error {
	if h.Version == 1 {
		return v1.Decode(dst, src)
	}
	scratch := scratches.Get().(*v2.Scratch)
	defer scratches.Put(scratch)
	for i := range h.patches {
		x, y, _, height := h.rect(i)
		if err := h.decodePatch(dst.From(x, y), src, i, height, scratch); err != nil {
			return err
		}
	}
	return nil
}

// place writes the samples of a rectangle of px to dst.
func place(px *transcode.Pixels, r image.Rectangle, dst Target) {
	transcode.Place(px, r, dst.Pix, transcode.Layout{Base: dst.Base, Row: dst.Row, Pixel: dst.Pixel, Channel: dst.Channel})
}

// region writes the samples of the pixels of r to dst, of a file of version 2.
func (s *Samples) region(r image.Rectangle, dst Target) error {
	if err := dst.Check(r.Dx(), r.Dy(), s.Mode.Channels(), s.Mode.Depth()/8); err != nil {
		return transcode.Errorf(transcode.ErrInternal, "L3: %v", err)
	}
	scratch := scratches.Get().(*v2.Scratch)
	defer scratches.Put(scratch)
	var px *transcode.Pixels // a patch of which r has a part
	for i := range s.patches {
		x, y, width, height := s.rect(i)
		patch := image.Rect(x, y, x+width, y+height)
		part := patch.Intersect(r)
		if part.Empty() {
			continue
		}
		to := dst.From(part.Min.X-r.Min.X, part.Min.Y-r.Min.Y)
		if part == patch {
			if err := s.decodePatch(to, s.src, i, height, scratch); err != nil {
				return err
			}
			continue
		}
		if px == nil || px.Width != width || px.Height != height {
			px = s.room(width, height)
		}
		if err := s.decodePatch(interleaved(px), s.src, i, part.Max.Y-y, scratch); err != nil {
			return err
		}
		place(px, part.Sub(patch.Min), to)
	}
	return nil
}

// decodePatch decodes a patch, whose first rows are wanted, to where dst has it.
func (h *Header) decodePatch(dst Target, src []byte, i, rows int, scratch *v2.Scratch) error {
	p := &h.patches[i]
	x, y, width, height := h.rect(i)
	if crc32.Checksum(src[p.offset:p.offset+p.length], castagnoli) != p.sum {
		return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d: checksum differs", x, y)
	}
	return v2.DecodeRows(dst, src[p.offset:], p.length, width, height, rows, h.Mode.Channels(), h.Mode.Depth(), scratch)
}
