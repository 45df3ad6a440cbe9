package l3

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
	v1 "github.com/pipefs/pipefs/transcode/l3/internal/v1"
	v2 "github.com/pipefs/pipefs/transcode/l3/internal/v2"
)

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
// [Holds] reports are taken; others, and what a patch of version 1 cannot hold,
// are transcode.ErrUnsupported. Version 1 keeps no metadata.
func Encode(px *transcode.Pixels, o Options) ([]byte, error) {
	if !Holds(px.Mode, o.Version()) || px.Planar || px.Type == transcode.Float32 || o.Patch < 0 || o.Patch > MaxPatch {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a picture of mode %v in patches of %d as L3 version %d", px.Mode, o.Patch, o.Version())
	}
	size := px.Mode.Depth() / 8
	if px.Width < 1 || px.Height < 1 || len(px.Pix) < px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d×%d pixels in %d bytes", px.Width, px.Height, len(px.Pix))
	}
	source := layout.Interleaved(px.Pix, px.Width, px.Mode.Channels(), size)
	if o.Mode == V1 {
		side := o.Patch
		if side == 0 {
			side = v1.DefaultPatch
		}
		return v1.Encode(source, px.Width, px.Height, px.Mode.Channels(), side)
	}
	h := Header{Version: 2, Width: px.Width, Height: px.Height, Mode: px.Mode, Meta: px.Meta}
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
func (h *Header) encode(source Target, mode v2.Mode) []byte {
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
