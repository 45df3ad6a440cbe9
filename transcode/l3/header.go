package l3

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"io"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/transcode"
	v2 "github.com/pipefs/pipefs/transcode/l3/internal/v2"
)

// Header is what a file says before its patches.
type Header struct {
	Version       int // 1 or 2
	Width, Height int // pixels
	// Mode is L, LA, RGB or RGBA, or one of these with 16 bits; version 1 has L and
	// RGB.
	Mode transcode.Mode
	// PatchWidth and PatchHeight are the sides of all patches but the last ones of
	// a row or column, which may be smaller.
	PatchWidth, PatchHeight int
	// Meta is the metadata of a file of version 2, as parts of the input.
	Meta transcode.Metadata

	patches []patch // of version 2, row by row
}

// patch is where a patch of version 2 lies in the file.
type patch struct {
	offset, length int
	sum            uint32
}

// The beginning of a file of version 2; see docs/l3.md.
const (
	magic2    = "LLL2"
	fixedLen  = 32
	entryLen  = 8 // of the directory, for each patch
	alignment = 16

	tagEXIF = 1
	tagICC  = 2
	tagLen  = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Is reports whether a file that begins with these bytes is an L3 file.
func Is(head []byte) bool {
	return isVersion1(head) || len(head) >= len(magic2) && string(head[:len(magic2)]) == magic2
}

// modes has the mode of each number of channels and depth of version 2.
var modes = map[[2]int]transcode.Mode{
	{1, 8}: transcode.ModeL, {2, 8}: transcode.ModeLA, {3, 8}: transcode.ModeRGB, {4, 8}: transcode.ModeRGBA,
	{1, 16}: transcode.ModeI16, {2, 16}: transcode.ModeLA16, {3, 16}: transcode.ModeRGB16, {4, 16}: transcode.ModeRGBA16,
}

// Holds reports whether a version of the format can hold pictures of a mode.
func Holds(m transcode.Mode, version int) bool {
	if version == 1 {
		return m == transcode.ModeL || m == transcode.ModeRGB
	}
	return m != transcode.ModeNone && modes[[2]int{m.Channels(), m.Depth()}] == m
}

// ParseHeader reads the header of a file from its first bytes; 32 are enough for
// everything but Meta and the patches. Where there are too few the error is of
// the kind transcode.ErrTruncated.
func ParseHeader(prefix []byte) (Header, error) {
	if len(prefix) >= len(magic2) && string(prefix[:len(magic2)]) == magic2 {
		h, _, err := parseFixed(prefix)
		return h, err
	}
	return parseHeader1(prefix)
}

// fixed is what is left of the first fixedLen bytes of version 2.
type fixed struct {
	meta int // length of the metadata
	sum  uint32
}

func parseFixed(b []byte) (Header, fixed, error) {
	h := Header{Version: 2}
	if len(b) < fixedLen {
		return h, fixed{}, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, its header takes %d", len(b), fixedLen)
	}
	mode, ok := modes[[2]int{int(b[4]), int(b[5])}]
	if !ok || b[6] > 8 || b[7] != 0 {
		return h, fixed{}, transcode.Errorf(transcode.ErrBad, "L3 picture of %d channels with %d bits, orientation %d, flags %02x", b[4], b[5], b[6], b[7])
	}
	h.Mode, h.Meta.Orientation = mode, b[6]
	var n [5]uint32 // width, height, sides of a patch, length of the metadata
	for i := range n {
		n[i] = binary.LittleEndian.Uint32(b[8+4*i:])
		if n[i] > 1<<30 || i < 4 && n[i] == 0 {
			return h, fixed{}, transcode.Errorf(transcode.ErrBad, "L3 header: %d in byte %d", n[i], 8+4*i)
		}
	}
	h.Width, h.Height, h.PatchWidth, h.PatchHeight = int(n[0]), int(n[1]), int(n[2]), int(n[3])
	return h, fixed{int(n[4]), binary.LittleEndian.Uint32(b[28:])}, nil
}

// columns and rows are the numbers of patches from edge to edge.
func (h *Header) columns() int { return (h.Width-1)/h.PatchWidth + 1 }
func (h *Header) rows() int    { return (h.Height-1)/h.PatchHeight + 1 }

// rect is the place of patch i in the picture.
func (h *Header) rect(i int) (x, y, width, height int) {
	x, y = i%h.columns()*h.PatchWidth, i/h.columns()*h.PatchHeight
	return x, y, min(h.PatchWidth, h.Width-x), min(h.PatchHeight, h.Height-y)
}

// parseFile reads and checks everything before the patches of a whole file of
// version 2.
func parseFile(b []byte) (Header, error) {
	h, f, err := parseFixed(b)
	if err != nil {
		return h, err
	}
	// As many patches as the file has directory entries for: nothing is allocated
	// before that is known.
	count := int64(h.columns()) * int64(h.rows())
	if count > int64(len(b))/entryLen {
		return h, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, the directory of its %d patches takes more", len(b), count)
	}
	directory := fixedLen + count*entryLen
	begin := directory + int64(f.meta)
	if begin > int64(len(b)) {
		return h, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, %d patches and metadata take %d", len(b), count, begin)
	}
	if got := headerSum(b[:begin]); got != f.sum {
		return h, transcode.Errorf(transcode.ErrBad, "L3 header: checksum differs")
	}
	if err := h.parseMeta(b[directory:begin]); err != nil {
		return h, err
	}
	h.patches = make([]patch, count)
	at := align(begin)
	for i := range h.patches {
		e := b[fixedLen+i*entryLen:]
		length := int64(binary.LittleEndian.Uint32(e))
		if at+length+v2.TailLen > int64(len(b)) {
			return h, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, patch %d ends at %d", len(b), i, at+length)
		}
		h.patches[i] = patch{int(at), int(length), binary.LittleEndian.Uint32(e[4:])}
		at = align(at + length)
	}
	if at+v2.TailLen != int64(len(b)) {
		return h, transcode.Errorf(transcode.ErrBad, "L3 file of %d bytes, its patches end at %d", len(b), at+v2.TailLen)
	}
	return h, nil
}

// headerSum is the checksum of everything before the patches, in which its own
// place counts as zero.
func headerSum(b []byte) uint32 {
	sum := crc32.Update(0, castagnoli, b[:fixedLen-4])
	sum = crc32.Update(sum, castagnoli, make([]byte, 4))
	return crc32.Update(sum, castagnoli, b[fixedLen:])
}

func (h *Header) parseMeta(b []byte) error {
	for len(b) > 0 {
		if len(b) < tagLen || int64(len(b)-tagLen) < int64(binary.LittleEndian.Uint32(b[1:])) {
			return transcode.Errorf(transcode.ErrBad, "L3 metadata of %d bytes", len(b))
		}
		n := int(binary.LittleEndian.Uint32(b[1:]))
		value := b[tagLen : tagLen+n : tagLen+n]
		switch b[0] {
		case tagEXIF:
			h.Meta.EXIF = value
		case tagICC:
			h.Meta.ICC = value
		}
		// Tags of later versions say nothing about the pixels.
		b = b[tagLen+n:]
	}
	return nil
}

func align(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

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
	s, err := Open(src, lim)
	if err != nil {
		return nil, err
	}
	return s.pixels(s.Width, s.Height, func(dst transcode.Target) error { return d.decode(ctx, s, dst) })
}

// DecodeRegion implements [transcode.RegionDecoder]: it decodes the patches that r touches.
// A file of version 1, and one for a backend, it decodes whole.
func (d Decoder) DecodeRegion(ctx context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle) (*transcode.Pixels, error) {
	s, err := open(src, lim, info)
	if err != nil {
		return nil, err
	}
	return s.pixels(r.Dx(), r.Dy(), func(dst transcode.Target) error { return d.region(ctx, s, r, dst) })
}

// open reads the header of a whole file, which has to say what info says.
func open(src []byte, lim transcode.Limits, info transcode.Info) (*Samples, error) {
	s, err := Open(src, lim)
	if err != nil {
		return nil, err
	}
	return s, info.Verify(s.Width, s.Height, s.Mode)
}

func (d Decoder) decode(ctx context.Context, s *Samples, dst transcode.Target) error {
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
	return d.region(ctx, s, r, transcode.Target{Pix: dst, Layout: at})
}

// region writes the samples of the pixels of r to dst.
func (d Decoder) region(ctx context.Context, s *Samples, r image.Rectangle, dst transcode.Target) error {
	switch {
	case r == image.Rect(0, 0, s.Width, s.Height):
		return d.decode(ctx, s, dst)
	case d.Backend == nil && s.Version == 2:
		return s.region(r, dst)
	}
	px := s.allocate(s.Width, s.Height)
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
		// Version 1 cannot hold metadata.
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
