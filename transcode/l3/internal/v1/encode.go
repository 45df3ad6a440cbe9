package v1

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/pipefs/pipefs/transcode"
)

// Encode makes a file of a picture of 1 or 3 channels, in patches of a side of 1 to
// 255, or 0 for DefaultPatch. The file is a plain one where that can hold the picture.
func Encode(pix transcode.Target, width, height, channels, patch int) ([]byte, error) {
	if patch == 0 {
		patch = DefaultPatch
	}
	if patch < 1 || patch > maxPatch {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "L3 patches of %d by %d samples: the format has 1 to %d", patch, patch, maxPatch)
	}
	if channels != 1 && channels != 3 {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "L3 picture of %d channels: the format has 1 or 3", channels)
	}
	if width > math.MaxInt32 || height > math.MaxInt32 {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "L3 picture of %d by %d pixels", width, height)
	}
	if err := pix.Check(width, height, channels, 1); err != nil {
		return nil, transcode.Errorf(transcode.ErrInternal, "%v", err)
	}
	h := Header{Width: width, Height: height, Channels: channels, Patch: patch}
	h.Extended = channels != 3 || width%patch != 0 || height%patch != 0
	n := h.columns() * h.rows()
	// Rows of 8 bits everywhere, and room for the packer to write whole words.
	e := encoder{Header: h, src: pix}
	e.out = make([]byte, h.len()+2*channels*n, h.len()+2*channels*n+channels*(height*width+2*height*h.columns())+slack)
	h.append(e.out[:0])
	e.pixels, e.residuals = make([]byte, planeLen(patch)), make([]byte, planeLen(patch))
	entry := h.len()
	for c := range channels {
		for y := 0; y < height; y += patch {
			for x := 0; x < width; x += patch {
				start := len(e.out)
				e.patch(x, y, c, min(patch, width-x), min(patch, height-y))
				// No patch is too large: 255 rows of 8 bits take exactly 65,535 bytes.
				binary.LittleEndian.PutUint16(e.out[entry:], uint16(len(e.out)-start))
				entry += 2
			}
		}
	}
	return e.out[:len(e.out):len(e.out)], nil
}

// slack is how far beyond a row the packer writes.
const slack = 16

// extremes are the least and the greatest residual of a row, as signed bytes.
type extremes = [2]int8

type encoder struct {
	Header
	src               transcode.Target
	pixels, residuals []byte // planes
	ends              [maxPatch]extremes
	out               []byte
}

// patch appends a patch of one channel.
func (e *encoder) patch(x, y, c, w, h int) {
	e.fill(x, y, c, w, h)
	residuals(e.residuals, &e.ends, e.pixels, w, h)
	// The first row holds no differences: its span is smaller when it is unsigned.
	first := e.pixels[planeAt(0, 0):][:w]
	least, greatest := byte(255), byte(0)
	for _, v := range first {
		least, greatest = min(least, v), max(greatest, v)
	}
	e.row(first, least, greatest-least)
	for j := 1; j < h; j++ {
		ends := e.ends[j]
		e.row(e.residuals[planeAt(0, j):][:w], byte(ends[0]), byte(ends[1])-byte(ends[0]))
	}
}

// fill moves a patch of one channel from the picture to the plane.
func (e *encoder) fill(x, y, c, w, h int) {
	for j := range h {
		row, at := e.pixels[planeAt(0, j):][:w+1], e.src.At(x, y+j, c)
		row[w] = 0 // where a wider patch may have been before
		if row = row[:w]; e.src.Pixel == 1 {
			copy(row, e.src.Pix[at:])
			continue
		}
		for i := range row {
			row[i] = e.src.Pix[at]
			at += e.src.Pixel
		}
	}
}

// residuals computes what predictions have to be corrected by.
func residuals(dst []byte, ends *[maxPatch]extremes, src []byte, w, h int) {
	for j := range h {
		row, out := src[planeAt(0, j):][:w], dst[planeAt(0, j):][:w]
		predict(out, src[planeAt(-1, j-1):][:w+2])
		x := extremes{math.MaxInt8, math.MinInt8}
		for i, v := range row {
			v -= out[i]
			out[i] = v
			x[0], x[1] = min(x[0], int8(v)), max(x[1], int8(v))
		}
		ends[j] = x
	}
}

const (
	low7 = 0x7f7f7f7f7f7f7f7f
	ones = 0x0101010101010101
)

// row appends a row whose greatest delta is span. What is read beyond values belongs
// to its plane.
func (e *encoder) row(values []byte, base, span byte) {
	nbits := uint(bits.Len8(span))
	at, n := len(e.out), rowLen(len(values), nbits)
	e.out = e.out[:at+n]
	out := e.out[at : at+n+slack : at+n+slack]
	binary.LittleEndian.PutUint16(out, uint16(nbits)|uint16(base)<<4)
	if nbits == 0 {
		return
	}
	// Deltas are packed in eights: first two to each 16 bits, then four to 32, then all.
	// carry is the part of a byte that precedes them.
	less := uint64(base) * ones
	gap := 8 - nbits
	carry := uint64(base >> 4)
	out = out[1:]
	for i := 0; i < len(values); i += 8 {
		v := binary.LittleEndian.Uint64(values[i : i+8 : i+8])
		// Eight differences modulo 256.
		v = ((v | ^uint64(low7)) - less&low7) ^ (v^^less)&^uint64(low7)
		if rest := len(values) - i; rest < 8 {
			v &= 1<<(8*rest) - 1
		}
		v = v&0x00ff00ff00ff00ff | (v&0xff00ff00ff00ff00)>>gap
		v = v&0x0000ffff0000ffff | (v&0xffff0000ffff0000)>>(2*gap)
		v = v&0x00000000ffffffff | v>>32<<(32-4*gap)
		binary.LittleEndian.PutUint64(out, carry|v<<4)
		carry = v >> (8*nbits - 4)
		out = out[nbits:]
	}
	out[0] = byte(carry)
}

const (
	magic         = "LLL."
	magicExtended = "LLL+"

	// HeaderLen is the number of bytes of a file from which Parse tells the
	// dimensions, whichever form it has.
	HeaderLen = 14

	// DefaultPatch is the authors' choice of a patch's side.
	DefaultPatch = 64
	maxPatch     = 255
)

// Header is what a file says before its size table.
type Header struct {
	Width, Height int
	// Channels is 3, or 1 for grey.
	Channels int
	// Patch is the number of samples on each side of a patch, 1 to 255.
	Patch int
	// Extended files are ours: the authors' decoder does not read them.
	Extended bool
}

// IsL3 says whether a file that starts with these bytes is one of version 1.
func IsL3(prefix []byte) bool {
	return len(prefix) >= len(magic) && (string(prefix[:4]) == magic || string(prefix[:4]) == magicExtended)
}

// Parse reads the header. src may be a prefix of the file; HeaderLen bytes are always
// enough.
func Parse(src []byte) (Header, error) {
	var h Header
	if len(src) >= len(magic) && !IsL3(src) {
		return h, transcode.Errorf(transcode.ErrBad, "no L3 file of version 1: starts with % x", src[:4])
	}
	h.Extended = len(src) >= len(magic) && src[3] == magicExtended[3]
	if len(src) < h.len() {
		return h, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, its header takes %d", len(src), h.len())
	}
	// int32 in the format: the sign is checked before it matters how wide int is.
	width, height := int32(binary.LittleEndian.Uint32(src[4:])), int32(binary.LittleEndian.Uint32(src[8:]))
	h.Width, h.Height, h.Patch, h.Channels = int(width), int(height), int(src[12]), 3
	if h.Extended {
		h.Channels = int(src[13])
	}
	switch {
	case h.Width < 1 || h.Height < 1:
		return h, transcode.Errorf(transcode.ErrBad, "L3 picture of %d by %d pixels", width, height)
	case h.Patch == 0:
		return h, transcode.Errorf(transcode.ErrBad, "L3 patches of 0 by 0 samples")
	case h.Channels != 1 && h.Channels != 3:
		return h, transcode.Errorf(transcode.ErrBad, "L3 picture of %d channels", h.Channels)
	case !h.Extended && (h.Width%h.Patch != 0 || h.Height%h.Patch != 0):
		return h, transcode.Errorf(transcode.ErrUnsupported,
			"L3 picture of %d by %d pixels in patches of %d: rows and columns beyond the last whole patch are not in the file", h.Width, h.Height, h.Patch)
	}
	return h, nil
}

// len is the number of bytes before the size table.
func (h *Header) len() int {
	if h.Extended {
		return HeaderLen
	}
	return HeaderLen - 1
}

// columns and rows are the numbers of patches from edge to edge. They are written
// so that nothing overflows where int has 32 bits.
func (h *Header) columns() int { return (h.Width-1)/h.Patch + 1 }
func (h *Header) rows() int    { return (h.Height-1)/h.Patch + 1 }

// append writes the header.
func (h *Header) append(b []byte) []byte {
	if h.Extended {
		b = append(b, magicExtended...)
	} else {
		b = append(b, magic...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Width))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Height))
	b = append(b, byte(h.Patch))
	if h.Extended {
		b = append(b, byte(h.Channels))
	}
	return b
}
