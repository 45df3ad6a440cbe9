// Package pnm reads and writes the portable any-map: PBM, PGM and PPM.
//
// # Nouns
//
// A file is a magic number, P1 to P6, then width, height and, except for black
// and white, the maxval: the value that means full intensity. Tokens stand
// between white space, comments run from # to the end of the line. Rows follow
// without padding, top-down; 16-bit values are big-endian. P1 to P3, the same in
// decimal digits, are unsupported.
//
// # What is read, and as what
//
// Pixels come out as Pillow reads them: a maxval other than 255 and 65535 is
// stretched to the full range, in 16 bits for grey. The one difference: colour
// of maxval 65535 keeps its 16 bits, of which Pillow keeps 8.
package pnm

import (
	"context"
	"encoding/binary"
	"image"
	"io"
	"math"
	"strconv"

	"github.com/pipefs/pipefs/transcode"
)

// maxHead bounds what may precede the pixels, comments included.
const maxHead = 64 << 10

// header is what precedes the pixels.
type header struct {
	width, height int
	maxval        int // 0 for black and white
	mode          transcode.Mode
	data          int // offset of the pixels
}

// samples is the number of values in a row.
func (h *header) samples() int { return h.width * h.mode.Channels() }

// rowBytes is the length of a row of the file.
func (h *header) rowBytes() int {
	switch {
	case h.maxval == 0:
		return (h.width + 7) / 8
	case h.maxval > 255:
		return 2 * h.samples()
	}
	return h.samples()
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// token reads one number that starts at or after b[i], and returns the offset
// after the white space that ends it.
func token(b []byte, i int) (value, next int, err error) {
	digits := 0
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '#':
			i = comment(b, i)
		case isSpace(c):
			if digits > 0 {
				return value, i + 1, nil
			}
		case c < '0' || c > '9' || digits == 10:
			return 0, 0, transcode.Errorf(transcode.ErrBad, "PNM header: %q in a number", c)
		default:
			value = value*10 + int(c-'0')
			digits++
		}
	}
	if len(b) >= maxHead {
		return 0, 0, transcode.Errorf(transcode.ErrUnsupported, "PNM header of more than %d bytes", maxHead)
	}
	return 0, 0, transcode.Errorf(transcode.ErrTruncated, "PNM header")
}

// parse reads the header from the beginning of a file.
func parse(b []byte) (*header, error) {
	b = b[:min(len(b), maxHead)]
	if !(Decoder{}).Sniff(b) {
		return nil, transcode.Errorf(transcode.ErrBad, "not a PNM file")
	}
	if b[1] < '4' {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "PNM in decimal digits, P%c: convert it to P%c", b[1], b[1]+3)
	}
	kind := b[1] - '4'
	h := &header{}
	var err error
	at := 2
	if h.width, at, err = token(b, at); err != nil {
		return nil, err
	}
	if h.height, at, err = token(b, at); err != nil {
		return nil, err
	}
	if kind > 0 {
		if h.maxval, at, err = token(b, at); err != nil {
			return nil, err
		}
		if h.maxval < 1 || h.maxval > 65535 {
			return nil, transcode.Errorf(transcode.ErrBad, "PNM maxval %d", h.maxval)
		}
	}
	switch {
	case kind == 0:
		h.mode = transcode.ModeBit
	case kind == 1 && h.maxval > 255:
		h.mode = transcode.ModeI16
	case kind == 1:
		h.mode = transcode.ModeL
	case h.maxval == 65535:
		h.mode = transcode.ModeRGB16
	default:
		h.mode = transcode.ModeRGB
	}
	h.data = at
	return h, nil
}

// check compares the header with the limits and with the length of the file.
func (h *header) check(size int64, lim transcode.Limits) error {
	if err := lim.CheckSize(h.width, h.height); err != nil {
		return err
	}
	want := int64(h.data) + int64(h.rowBytes())*int64(h.height)
	if want > size {
		return transcode.Errorf(transcode.ErrTruncated, "PNM file of %d bytes, want %d", size, want)
	}
	return nil
}

// Decoder is the [transcode.Decoder] of PNM.
type Decoder struct{}

// Format returns transcode.PNM.
func (Decoder) Format() transcode.Format { return transcode.PNM }

// ID names this implementation.
func (Decoder) ID() string { return "pnm1" }

// Extensions of any-map files.
func (Decoder) Extensions() []string { return []string{"ppm", "pgm", "pbm", "pnm"} }

// Sniff looks for the magic number and the white space after it.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= 3 && head[0] == 'P' && head[1] >= '1' && head[1] <= '6' && (isSpace(head[2]) || head[2] == '#')
}

// Probe reads the header.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	// Headers are a few dozen bytes, unless somebody comments at length.
	var h *header
	for _, n := range []int{512, maxHead} {
		b, err := transcode.ReadHead(r, size, n)
		if err != nil {
			return transcode.Info{}, err
		}
		if h, err = parse(b); err == nil {
			break
		}
		if n == maxHead || int64(n) >= size {
			return transcode.Info{}, err
		}
	}
	if err := h.check(size, lim); err != nil {
		return transcode.Info{}, err
	}
	return transcode.Info{Format: transcode.PNM, Mode: h.mode, Width: h.width, Height: h.height}, nil
}

// Decode decodes a whole file.
func (Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	h, err := open(src, lim)
	if err != nil {
		return nil, err
	}
	return h.rows(src, 0, h.height), nil
}

// DecodeRegion implements [transcode.RegionDecoder]: it converts the rows of r only.
func (Decoder) DecodeRegion(_ context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle) (*transcode.Pixels, error) {
	h, err := openAs(src, lim, info)
	if err != nil {
		return nil, err
	}
	if lying := h.lying(src, r.Min.Y, r.Max.Y); lying != nil {
		px := &transcode.Pixels{Width: r.Dx(), Height: r.Dy(), Mode: h.mode}
		px.Pix = make([]byte, px.Len())
		transcode.Place(lying, r.Sub(image.Pt(0, r.Min.Y)), px.Pix, transcode.LayoutOf(px))
		return px, nil
	}
	return h.rows(src, r.Min.Y, r.Max.Y).Cut(r.Sub(image.Pt(0, r.Min.Y))), nil
}

// Rows implements [transcode.RowDecoder].
func (Decoder) Rows(head []byte, size int64, from, to int) (begin, end int64, ok bool) {
	h, err := parse(head)
	if err != nil || h.check(size, transcode.Limits{}) != nil || from < 0 || to > h.height {
		return 0, 0, false
	}
	rows := int64(h.rowBytes())
	return int64(h.data) + int64(from)*rows, int64(h.data) + int64(to)*rows, true
}

// Lying implements [transcode.RowDecoder].
func (Decoder) Lying(src []byte, lim transcode.Limits, info transcode.Info, from, to int) (*transcode.Pixels, error) {
	h, err := openAs(src, lim, info)
	if err != nil {
		return nil, err
	}
	return h.lying(src, from, to), nil
}

// lying are rows of values that mean in the file what they mean in memory; nil of others.
func (h *header) lying(src []byte, from, to int) *transcode.Pixels {
	if h.maxval != 255 {
		return nil
	}
	px := &transcode.Pixels{Width: h.width, Height: to - from, Mode: h.mode}
	px.Pix = src[h.data+from*px.RowBytes():][:px.Len():px.Len()]
	return px
}

// openAs is open of a file whose header is known to say what info says.
func openAs(src []byte, lim transcode.Limits, info transcode.Info) (*header, error) {
	h, err := open(src, lim)
	if err != nil {
		return nil, err
	}
	return h, info.Verify(h.width, h.height, h.mode)
}

// open reads the header of a whole file.
func open(src []byte, lim transcode.Limits) (*header, error) {
	h, err := parse(src)
	if err != nil {
		return nil, err
	}
	return h, h.check(int64(len(src)), lim)
}

// rows decodes the rows from one on, up to and without another.
func (h *header) rows(src []byte, from, to int) *transcode.Pixels {
	px := &transcode.Pixels{Width: h.width, Height: to - from, Mode: h.mode}
	if h.mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	px.Pix = make([]byte, px.Len())
	src = src[h.data+from*h.rowBytes():]
	switch h.maxval {
	case 0:
		bits(px, src, h.rowBytes())
	case 255:
		copy(px.Pix, src)
	case 65535:
		for i := 0; i < len(px.Pix); i += 2 {
			px.Pix[i], px.Pix[i+1] = src[i+1], src[i]
		}
	default:
		h.stretch(px, src)
	}
	return px
}

// bits unpacks rows of bits, of which a set one is black.
func bits(px *transcode.Pixels, src []byte, rowBytes int) {
	for y := range px.Height {
		row := src[y*rowBytes:]
		dst := px.Pix[y*px.Width : (y+1)*px.Width]
		for x := range dst {
			dst[x] = ^row[x>>3] >> (7 - x&7) & 1
		}
	}
}

// stretch maps the values from 0 to maxval to the full range, as Pillow does: in double
// precision, halves to even. A value over the maxval counts as full intensity.
func (h *header) stretch(px *transcode.Pixels, src []byte) {
	most, wide := 255.0, px.Type == transcode.Uint16
	if wide {
		most = 65535
	}
	table := make([]uint16, h.maxval+1)
	for v := range table {
		table[v] = uint16(math.RoundToEven(float64(float64(v)/float64(h.maxval)) * most))
	}
	for i := range len(px.Pix) / px.Type.Size() {
		var v int
		if h.maxval > 255 {
			v = int(binary.BigEndian.Uint16(src[2*i:]))
		} else {
			v = int(src[i])
		}
		if v := table[min(v, h.maxval)]; wide {
			binary.LittleEndian.PutUint16(px.Pix[2*i:], v)
		} else {
			px.Pix[i] = byte(v)
		}
	}
}

// comment returns the offset of the end of the line.
func comment(b []byte, i int) int {
	for i < len(b) && b[i] != '\n' && b[i] != '\r' {
		i++
	}
	return i
}

// Kind is the step `ppm`.
func Kind() *transcode.Kind {
	return &transcode.Kind{
		Name: "ppm", Brief: "portable any-map: a short header and raw pixels, 8 or 16 bits",
		From: transcode.Picture, To: transcode.File, ID: "ppm1",
		Format: transcode.PNM, Ext: "ppm",
		Shape: shape, Size: Size, Frame: frame,
		Apply: transcode.Encoding(Encode),
	}
}

// shape accepts what an any-map holds: no alpha, no palette, no colour that
// counts as transparent.
func shape(in transcode.Shape, _ int) (transcode.Shape, bool) {
	out := in
	out.Format, out.Stage = transcode.PNM, transcode.File
	return out, magic(in.Mode) != 0 && !in.Transparent && in.Type != transcode.Float32
}

// magic is the digit after the P; 0 where an any-map cannot hold the mode.
func magic(m transcode.Mode) byte {
	switch m {
	case transcode.ModeBit:
		return '4'
	case transcode.ModeL, transcode.ModeI16:
		return '5'
	case transcode.ModeRGB, transcode.ModeRGB16:
		return '6'
	}
	return 0
}

// AppendHeader appends what precedes the pixels.
func AppendHeader(b []byte, m transcode.Mode, width, height int) []byte {
	b = append(b, 'P', magic(m), '\n')
	b = strconv.AppendInt(b, int64(width), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(height), 10)
	switch {
	case m == transcode.ModeBit:
		return append(b, '\n')
	case m.Depth() == 16:
		return append(b, "\n65535\n"...)
	}
	return append(b, "\n255\n"...)
}

// Size is the length in bytes of the file that holds a picture of s.
func Size(s transcode.Shape) int64 {
	var head [64]byte
	row := int64(s.Width) * int64(s.Mode.Channels()*s.Mode.Depth()/8)
	if s.Mode == transcode.ModeBit {
		row = (int64(s.Width) + 7) / 8
	}
	return int64(len(AppendHeader(head[:0], s.Mode, s.Width, s.Height))) + row*int64(s.Height)
}

// frame makes the file without its pixels.
func frame(px *transcode.Pixels, alloc transcode.Alloc) ([]byte, transcode.Layout, bool) {
	if px.Mode != transcode.ModeRGB && px.Mode != transcode.ModeL || px.Planar {
		return nil, transcode.Layout{}, false // packed, or with the high byte first
	}
	b := alloc(Size(transcode.Shape{Info: transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}}))
	at := transcode.LayoutOf(px)
	at.Base = len(AppendHeader(b[:0], px.Mode, px.Width, px.Height))
	return b, at, true
}

// Encode encodes a picture. A mode that an any-map cannot hold is
// ErrUnsupported.
func Encode(px *transcode.Pixels) ([]byte, error) {
	if magic(px.Mode) == 0 || px.Type == transcode.Float32 || px.Planar {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a PNM file of mode %v", px.Mode)
	}
	if len(px.Pix) != px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	size := Size(transcode.Shape{Info: transcode.Info{Mode: px.Mode, Width: px.Width, Height: px.Height}})
	b := AppendHeader(make([]byte, 0, size), px.Mode, px.Width, px.Height)
	switch {
	case px.Mode == transcode.ModeBit:
		for y := range px.Height {
			b = appendBits(b, px.Pix[y*px.Width:(y+1)*px.Width])
		}
	case px.Type == transcode.Uint16:
		for i := 0; i+1 < len(px.Pix); i += 2 {
			b = append(b, px.Pix[i+1], px.Pix[i])
		}
	default:
		b = append(b, px.Pix...)
	}
	return b, nil
}

// appendBits packs one row; a set bit is black.
func appendBits(b, row []byte) []byte {
	for len(row) > 0 {
		var v byte
		n := min(8, len(row))
		for i, p := range row[:n] {
			v |= (^p & 1) << (7 - i)
		}
		b = append(b, v)
		row = row[n:]
	}
	return b
}
