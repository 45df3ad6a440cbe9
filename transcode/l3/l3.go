// Package l3 reads and writes L3 files: lossless pictures that decode at gigabytes
// a second on one core, after "L3: Accelerator-Friendly Lossless Image Format for
// High-Resolution, High-Throughput DNN Training" (ECCV 2022). docs/l3.md specifies
// both versions of the format byte by byte.
//
// # Nouns
//
// A patch is a rectangle of the picture that is coded on its own: it can be
// decoded without the others. Version 1 is the paper's format, with an extension
// for grey pictures and for sides that are no multiple of the patch's. Version 2
// is our own, smaller and for more kinds of pictures; it has two modes: dense, and
// fast, which is larger and decodes faster.
//
// A [transcode.Target] says where in memory the samples are to lie; any order of channels and
// rows will do, so that nothing has to be moved afterwards. A Backend decodes many
// pictures at once, on the processor or elsewhere.
package l3

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"sync"

	"github.com/pipefs/pipefs/transcode"
	v2 "github.com/pipefs/pipefs/transcode/l3/internal/v2"
)

// pixels makes the picture of the samples that a function writes.
func (s *Samples) pixels(width, height int, samples func(transcode.Target) error) (*transcode.Pixels, error) {
	px := s.allocate(width, height)
	// Copies: the file must not be kept alive by what its header says.
	px.Meta = transcode.Metadata{EXIF: bytes.Clone(s.Meta.EXIF), ICC: bytes.Clone(s.Meta.ICC), Orientation: s.Meta.Orientation}
	return px, samples(interleaved(px))
}

// allocate takes memory for pixels of the picture.
func (s *Samples) allocate(width, height int) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: s.Mode}
	if s.Mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	px.Pix = make([]byte, px.Len())
	return px
}

func interleaved(px *transcode.Pixels) transcode.Target {
	return transcode.Interleaved(px.Pix, px.Width, px.Mode.Channels(), px.Type.Size())
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

// Decode writes all samples to dst, which has to hold them.
func (s *Samples) Decode(dst transcode.Target) error {
	if err := dst.Check(s.Width, s.Height, s.Mode.Channels(), s.Mode.Depth()/8); err != nil {
		return transcode.Errorf(transcode.ErrInternal, "L3: %v", err)
	}
	return s.decode(dst, s.src)
}

// Rect is the place of patch i of a file of version 2.
func (s *Samples) Rect(i int) (x, y, width, height int) { return s.rect(i) }

func (h *Header) decode(dst transcode.Target, src []byte) error {
	if h.Version == 1 {
		return h.decode1(dst, src)
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
func place(px *transcode.Pixels, r image.Rectangle, dst transcode.Target) {
	transcode.Place(px, r, dst.Pix, dst.Layout)
}

// region writes the samples of the pixels of r to dst, of a file of version 2.
func (s *Samples) region(r image.Rectangle, dst transcode.Target) error {
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
			px = s.allocate(width, height)
		}
		if err := s.decodePatch(interleaved(px), s.src, i, part.Max.Y-y, scratch); err != nil {
			return err
		}
		place(px, part.Sub(patch.Min), to)
	}
	return nil
}

// decodePatch decodes a patch, whose first rows are wanted, to where dst has it.
func (h *Header) decodePatch(dst transcode.Target, src []byte, i, rows int, scratch *v2.Scratch) error {
	p := &h.patches[i]
	x, y, width, height := h.rect(i)
	if crc32.Checksum(src[p.offset:p.offset+p.length], castagnoli) != p.sum {
		return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d: checksum differs", x, y)
	}
	return v2.DecodeRows(dst, src[p.offset:], p.length, width, height, rows, h.Mode.Channels(), h.Mode.Depth(), scratch)
}

// Part is where the bytes of a patch lie in the file. In version 1 each channel has
// bytes of its own, in version 2 there is one piece for all.
type Part struct {
	Offset, Length [3]int
}

// Source is the file as it was given to Open.
func (s *Samples) Source() []byte { return s.src }

// Columns is how many patches there are from the left edge to the right one.
func (s *Samples) Columns() int { return s.columns() }

// Parts returns where the patches lie, row by row, for a backend that decodes them
// itself. All of them are within Source, and in version 2 have a multiple of 16 as
// offset and 8 bytes or more behind them.
func (s *Samples) Parts() ([]Part, error) {
	if s.Version == 1 {
		return s.parts1(s.src)
	}
	parts := make([]Part, len(s.patches))
	for i, p := range s.patches {
		parts[i] = Part{[3]int{p.offset}, [3]int{p.length}}
	}
	return parts, nil
}

// Verify compares the patches with their checksums, which version 1 has not. Decode
// does so itself.
func (s *Samples) Verify() error {
	for i, p := range s.patches {
		if crc32.Checksum(s.src[p.offset:p.offset+p.length], castagnoli) != p.sum {
			x, y, _, _ := s.rect(i)
			return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d: checksum differs", x, y)
		}
	}
	return nil
}

// Job is a picture to be decoded.
type Job struct {
	Samples *Samples
	Dst     transcode.Target
	// Err is why it was not decoded, or nil.
	Err error
}

// Backend decodes batches of pictures. It is safe for concurrent use.
type Backend interface {
	// Decode decodes all jobs and sets their Err. It returns an error if the backend
	// itself failed or ctx ended: then jobs may not have been decoded.
	Decode(ctx context.Context, jobs []Job) error
	// Close gives its resources back.
	Close() error
}

// CPU is the Backend that decodes with this package.
type CPU struct {
	Workers int // pictures at once; 0 means 1
}

// Decode implements [Backend].
func (c CPU) Decode(ctx context.Context, jobs []Job) error {
	var work sync.WaitGroup
	next := make(chan *Job)
	for range max(1, c.Workers) {
		work.Go(func() {
			for j := range next {
				j.Err = j.Samples.Decode(j.Dst)
			}
		})
	}
	var err error
	for i := range jobs {
		if err = ctx.Err(); err != nil {
			break
		}
		next <- &jobs[i]
	}
	close(next)
	work.Wait()
	return err
}

// Close implements [Backend].
func (CPU) Close() error { return nil }

// scratches are the working memory of decodings.
var scratches = sync.Pool{New: func() any { return new(v2.Scratch) }}

// Mode is how a file is written.
type Mode uint8

// The modes. Dense is the default: it takes about three quarters of what PNG
// takes for a photograph. Fast takes about as much as PNG, and decodes about one
// and a half times as fast as dense. V1 is what the authors' decoder reads.
const (
	Dense Mode = iota
	Fast
	V1
)

func (m Mode) String() string { return [...]string{"dense", "fast", "v1"}[m] }

// tries has the mode of package v2 for each mode of version 2.
func (m Mode) tries() v2.Mode {
	return [...]v2.Mode{Dense: v2.Dense, Fast: v2.Fast}[m]
}

// Options of Encode.
type Options struct {
	Mode Mode
	// Patch is the side of a patch, 1 to MaxPatch, or to 255 in version 1; 0 means
	// 256, and 64 in version 1. Version 2 takes the nearest sides below it that
	// leave no narrow rest.
	Patch int
}

// MaxPatch is the largest side of a patch.
const MaxPatch = 4096

const defaultPatch = 256

// Version is that of the files written.
func (o Options) Version() int {
	if o.Mode == V1 {
		return 1
	}
	return 2
}

// Encode writes a picture as an L3 file. Interleaved pixels of the modes that
// [Holds] reports are taken; others, and patches that are too large,
// are transcode.ErrUnsupported. Version 1 keeps no metadata.
func Encode(px *transcode.Pixels, o Options) ([]byte, error) {
	if !Holds(px.Mode, o.Version()) || px.Planar || px.Type == transcode.Float32 || o.Patch < 0 || o.Patch > MaxPatch || o.Mode == V1 && o.Patch > maxPatch1 {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a picture of mode %v in patches of %d as L3 version %d", px.Mode, o.Patch, o.Version())
	}
	size := px.Mode.Depth() / 8
	if px.Width < 1 || px.Height < 1 || len(px.Pix) < px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d×%d pixels in %d bytes", px.Width, px.Height, len(px.Pix))
	}
	source := transcode.Interleaved(px.Pix, px.Width, px.Mode.Channels(), size)
	h := Header{Version: o.Version(), Width: px.Width, Height: px.Height, Mode: px.Mode, Meta: px.Meta}
	if h.Version == 1 {
		h.PatchWidth = o.Patch
		if o.Patch == 0 {
			h.PatchWidth = defaultPatch1
		}
		h.PatchHeight = h.PatchWidth
		return h.encode1(source), nil
	}
	h.PatchWidth, h.PatchHeight = sides(px.Width, px.Height, o.Patch)
	return h.encode(source, o.Mode.tries()), nil
}

// sides returns the sides of patches that are about equal, since narrow ones take
// more time and bytes. All but the last rows of them are multiples of 32 high.
func sides(width, height, most int) (w, h int) {
	if most == 0 {
		most = defaultPatch
	}
	w = ceilDiv(width, ceilDiv(width, most))
	h = ceilDiv(height, ceilDiv(height, most))
	if most >= 32 {
		h = min((h+31)&^31, most&^31)
	}
	return w, min(h, height)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// encode writes the file.
func (h *Header) encode(source transcode.Target, mode v2.Mode) []byte {
	meta := appendMeta(appendMeta(nil, tagEXIF, h.Meta.EXIF), tagICC, h.Meta.ICC)
	count := h.columns() * h.rows()
	begin := align(int64(fixedLen + count*entryLen + len(meta)))
	b := make([]byte, begin, int(begin)+h.Height*source.Row/2+4096)
	copy(b, magic2)
	b[4], b[5], b[6] = byte(h.Mode.Channels()), byte(h.Mode.Depth()), min(h.Meta.Orientation, 8)
	for i, n := range []int{h.Width, h.Height, h.PatchWidth, h.PatchHeight, len(meta)} {
		binary.LittleEndian.PutUint32(b[8+4*i:], uint32(n))
	}
	directory := fixedLen + count*entryLen
	copy(b[directory:], meta)
	w := new(v2.Workspace)
	for i := range count {
		x, y, width, height := h.rect(i)
		part := source
		part.Base = source.At(x, y, 0)
		from := len(b)
		b = v2.Encode(b, part, width, height, h.Mode.Channels(), h.Mode.Depth(), mode, w)
		entry := b[fixedLen+i*entryLen:]
		binary.LittleEndian.PutUint32(entry, uint32(len(b)-from))
		binary.LittleEndian.PutUint32(entry[4:], crc32.Checksum(b[from:], castagnoli))
		b = append(b, make([]byte, align(int64(len(b)))-int64(len(b)))...)
	}
	b = append(b, make([]byte, v2.TailLen)...)
	binary.LittleEndian.PutUint32(b[fixedLen-4:], headerSum(b[:directory+len(meta)]))
	return b
}

func appendMeta(b []byte, tag byte, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	b = append(b, tag)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}
