package l3

import (
	"context"
	"fmt"
	"image"
	"io"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// Decoder is the [transcode.Decoder] of L3.
type Decoder struct {
	// Backend decodes the samples, one picture a call; it may gather the calls. nil is
	// this package.
	Backend Backend
}

// Format returns transcode.L3.
func (Decoder) Format() transcode.Format { return transcode.L3 }

// ID names the implementation.
func (Decoder) ID() string { return "l3" }

// Extensions of L3 files.
func (Decoder) Extensions() []string { return []string{"l3"} }

// Sniff looks for one of the magic numbers.
func (Decoder) Sniff(head []byte) bool { return Is(head) }

// Probe reads the header.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	b, err := transcode.ReadHead(r, size, fixedLen)
	if err != nil {
		return transcode.Info{}, err
	}
	h, err := ParseHeader(b)
	if err != nil {
		return transcode.Info{}, err
	}
	if err := lim.CheckSize(h.Width, h.Height); err != nil {
		return transcode.Info{}, err
	}
	return transcode.Info{Format: transcode.L3, Mode: h.Mode, Width: h.Width, Height: h.Height, Orientation: h.Meta.Orientation}, nil
}

// Decode decodes a whole file.
func (d Decoder) Decode(ctx context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	return decode(src, lim, func(s *Samples, dst Target) error { return d.decode(ctx, s, dst) })
}

// DecodeRegion implements [transcode.RegionDecoder]: it decodes the patches that r touches.
// A file of version 1, and one for a backend, it decodes whole.
func (d Decoder) DecodeRegion(ctx context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle) (*transcode.Pixels, error) {
	s, err := open(src, lim, info)
	if err != nil {
		return nil, err
	}
	return s.pixels(r.Dx(), r.Dy(), func(dst Target) error { return d.region(ctx, s, r, dst) })
}

// open reads the header of a whole file, which has to say what info says.
func open(src []byte, lim transcode.Limits, info transcode.Info) (*Samples, error) {
	s, err := Open(src, lim)
	if err != nil {
		return nil, err
	}
	return s, info.Verify(s.Width, s.Height, s.Mode)
}

func (d Decoder) decode(ctx context.Context, s *Samples, dst Target) error {
	if d.Backend == nil {
		return s.Decode(dst)
	}
	jobs := []Job{{Samples: s, Dst: dst}}
	if err := d.Backend.Decode(ctx, jobs); err != nil {
		return err
	}
	return jobs[0].Err
}

// Fill implements [transcode.Filler].
func (d Decoder) Fill(ctx context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle, dst []byte, at transcode.Layout) error {
	s, err := open(src, lim, info)
	if err != nil {
		return err
	}
	to := Target{Pix: dst, Base: at.Base, Row: at.Row, Pixel: at.Pixel, Channel: at.Channel}
	return d.region(ctx, s, r, to)
}

// region writes the samples of the pixels of r to dst.
func (d Decoder) region(ctx context.Context, s *Samples, r image.Rectangle, dst Target) error {
	switch {
	case r == image.Rect(0, 0, s.Width, s.Height):
		return d.decode(ctx, s, dst)
	case d.Backend == nil && s.Version == 2:
		return s.region(r, dst)
	}
	px := s.room(s.Width, s.Height)
	if err := d.decode(ctx, s, interleaved(px)); err != nil {
		return err
	}
	place(px, r, dst)
	return nil
}

// Kind is the step `l3`.
func Kind(o Options) *transcode.Kind {
	return &transcode.Kind{
		Name: "l3", Brief: "an L3 file: lossless, and decoded at gigabytes a second",
		From: transcode.Picture, To: transcode.File, ID: o.id(), Format: transcode.L3, Ext: "l3",
		// Version 1 has no room for metadata.
		Substitute: o.Version() == 2,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Stage, out.Format = transcode.File, transcode.L3
			return out, Holds(in.Mode, o.Version()) && !in.Transparent
		},
		Apply: transcode.Encoding(func(px *transcode.Pixels) ([]byte, error) { return Encode(px, o) }),
	}
}

// modeIDs name the output of Encode: if a bit of it changes, the name has to change.
var modeIDs = [...]string{Dense: "l3dense1", Fast: "l3fast2", V1: "l3v11"}

// id is the name with the size of patches.
func (o Options) id() string {
	id := modeIDs[o.Mode]
	if o.Patch != 0 {
		id += fmt.Sprintf(".%d", o.Patch)
	}
	return id
}

// OptionsOf returns the options with which a substitute was made, given its key.
func OptionsOf(key string) (o Options, ok bool) {
	steps, ids, ok := strings.Cut(key, "@")
	if !ok || steps != "decode-l3" {
		return o, false
	}
	id := ids[strings.LastIndexByte(ids, ',')+1:]
	id, patch, sized := strings.Cut(id, ".")
	if sized {
		if o.Patch, _ = strconv.Atoi(patch); o.Patch < 1 || o.Patch > MaxPatch {
			return Options{}, false
		}
	}
	for _, o.Mode = range []Mode{Dense, Fast} {
		if modeIDs[o.Mode] == id {
			return o, true
		}
	}
	return Options{}, false
}

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	for _, m := range []Mode{Dense, Fast, V1} {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, transcode.Errorf(transcode.ErrUnsupported, "L3 mode %q: there are dense, fast and v1", name)
}
