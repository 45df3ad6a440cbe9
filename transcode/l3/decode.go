package l3

import (
	"bytes"
	"hash/crc32"

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
	h, err := Open(src, lim)
	if err != nil {
		return nil, err
	}
	px := &transcode.Pixels{Width: h.Width, Height: h.Height, Mode: h.Mode}
	if h.Mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	// Copies: the file must not be kept alive by what its header says.
	px.Meta = transcode.Metadata{EXIF: bytes.Clone(h.Meta.EXIF), ICC: bytes.Clone(h.Meta.ICC), Orientation: h.Meta.Orientation}
	px.Pix = make([]byte, px.Len())
	return px, samples(h, layout.Interleaved(px.Pix, px.Width, px.Mode.Channels(), px.Type.Size()))
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
		x, y, _, _ := h.rect(i)
		part := dst
		part.Base = dst.At(x, y, 0)
		if err := h.decodePatch(part, src, i, scratch); err != nil {
			return err
		}
	}
	return nil
}

func (h *Header) decodePatch(dst Target, src []byte, i int, scratch *v2.Scratch) error {
	p := &h.patches[i]
	x, y, width, height := h.rect(i)
	if crc32.Checksum(src[p.offset:p.offset+p.length], castagnoli) != p.sum {
		return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d: checksum differs", x, y)
	}
	return v2.Decode(dst, src[p.offset:], p.length, width, height, h.Mode.Channels(), h.Mode.Depth(), scratch)
}
