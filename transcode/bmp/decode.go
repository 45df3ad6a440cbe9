// Package bmp reads and writes Windows bitmaps.
//
// # Nouns
//
// A file is a file header of 14 bytes, an info header whose length tells its
// version, colour masks or a palette where the depth wants one, and the rows,
// each padded to a multiple of four bytes. Rows stand bottom-up, or top-down
// where the height is negative. Pixels of 24 and 32 bits are blue, green, red.
//
// # What is read, and as what
//
// Pixels come out as Pillow reads them. A palette that says nothing (a grey
// ramp; black and white at one bit) is dropped, and the picture is grey or
// black and white. 32 bits without an alpha mask are RGB. Run-length coding, 16
// bits a pixel, other masks and OS/2 variants are unsupported.
//
// # What is written
//
// Bottom-up, the form that every reader knows, in the version that says enough:
// 40 bytes of info header, or 108 where there is alpha. Palettes always have 256
// entries, since Pillow takes the first two of a shorter one for the whole.
package bmp

import (
	"context"
	"encoding/binary"
	"image"
	"io"

	"github.com/pipefs/pipefs/transcode"
)

const (
	fileHeader  = 14
	infoHeader  = 40
	infoHeader4 = 108
	infoHeader5 = 124

	// maxHead is the most that precedes the pixels and says what they are.
	maxHead = fileHeader + infoHeader5 + 4*256

	uncompressed = 0
	bitfields    = 3
)

// layout says how pixels are cut into channels.
type layout uint8

const (
	indexed layout = iota
	bgr
	bgrx
	bgra
)

// layouts are masks of 32 bits, in the order red, green, blue, alpha. All zero means that
// the file does not say; readers take BGRA.
var layouts = map[[4]uint32]layout{
	{0xff0000, 0xff00, 0xff, 0}:          bgrx,
	{0xff0000, 0xff00, 0xff, 0xff000000}: bgra,
	{0, 0, 0, 0}:                         bgra,
}

// header is what precedes the pixels.
type header struct {
	width, height int
	topDown       bool
	bits          int // of a pixel
	layout        layout
	mode          transcode.Mode
	palette       []byte // RGBA
	data          int64  // offset of the rows
}

// stride is the length of a row in the file.
func (h *header) stride() int64 { return (int64(h.width)*int64(h.bits) + 31) / 32 * 4 }

// end is the smallest length of a complete file. The padding of the last row
// may be missing.
func (h *header) end() int64 {
	return h.data + int64(h.height-1)*h.stride() + (int64(h.width)*int64(h.bits)+7)/8
}

// parse reads the header from the beginning of a file.
func parse(b []byte) (*header, error) {
	if len(b) < fileHeader+4 {
		return nil, transcode.Errorf(transcode.ErrTruncated, "BMP header of %d bytes", len(b))
	}
	le := binary.LittleEndian
	if b[0] != 'B' || b[1] != 'M' {
		return nil, transcode.Errorf(transcode.ErrBad, "not a BMP file")
	}
	data := int64(le.Uint32(b[10:]))
	size := int(le.Uint32(b[14:]))
	switch size {
	case infoHeader, infoHeader4, infoHeader5:
	default:
		return nil, transcode.Errorf(transcode.ErrUnsupported, "BMP info header of %d bytes", size)
	}
	rest := b[fileHeader:]
	if len(rest) < size {
		return nil, transcode.Errorf(transcode.ErrTruncated, "BMP info header ends after %d of %d bytes", len(rest), size)
	}
	info, rest := rest[:size], rest[size:]

	h := &header{}
	h.width, h.height = int(int32(le.Uint32(info[4:]))), int(int32(le.Uint32(info[8:])))
	h.bits = int(le.Uint16(info[14:]))
	compression, colours := le.Uint32(info[16:]), le.Uint32(info[32:])
	if h.height < 0 {
		h.topDown, h.height = true, -h.height
	}
	if h.width <= 0 || h.height <= 0 {
		return nil, transcode.Errorf(transcode.ErrBad, "BMP of %d by %d pixels", h.width, h.height)
	}
	var err error
	switch {
	case compression == bitfields:
		rest, err = h.masks(info, rest)
	case compression != uncompressed:
		err = transcode.Errorf(transcode.ErrUnsupported, "BMP compression %d", compression)
	}
	if err != nil {
		return nil, err
	}
	switch h.bits {
	case 1, 4, 8:
		if colours == 0 {
			colours = 1 << h.bits
		}
		rest, err = h.colours(rest, colours)
		// Some writers forget the palette when they say where the pixels are.
		if data == int64(fileHeader+size) {
			data += 4 * int64(colours)
		}
	case 24:
		h.mode, h.layout = transcode.ModeRGB, bgr
	case 32:
		if h.layout == indexed {
			h.layout = bgrx
		}
		h.mode = transcode.ModeRGB
		if h.layout == bgra {
			h.mode = transcode.ModeRGBA
		}
	default:
		err = transcode.Errorf(transcode.ErrUnsupported, "BMP of %d bits a pixel", h.bits)
	}
	if err != nil {
		return nil, err
	}
	if data == 0 {
		data = int64(len(b) - len(rest))
	}
	h.data = data
	return h, nil
}

// masks reads the colour masks: a part of the longer headers, and what follows
// the shorter ones.
func (h *header) masks(info, rest []byte) ([]byte, error) {
	var mask [4]uint32
	n := 4
	if len(info) >= 56 {
		info = info[40:]
	} else {
		// What stands in the place of a fourth mask is not one.
		if len(rest) < 12 {
			return nil, transcode.Errorf(transcode.ErrTruncated, "BMP colour masks")
		}
		info, rest, n = rest[:12], rest[12:], 3
	}
	for i := range n {
		mask[i] = binary.LittleEndian.Uint32(info[4*i:])
	}
	rgb := [3]uint32(mask[:3])
	known := false
	switch h.bits {
	case 32:
		h.layout, known = layouts[mask]
	case 24:
		known = rgb == [3]uint32{0xff0000, 0xff00, 0xff}
	}
	if !known {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "BMP of %d bits with masks %x", h.bits, mask)
	}
	return rest, nil
}

// colours reads the palette, n entries of 4 bytes, and decides on the mode.
func (h *header) colours(b []byte, n uint32) ([]byte, error) {
	if n > 256 {
		return nil, transcode.Errorf(transcode.ErrBad, "BMP palette of %d colours", n)
	}
	length := int(n) * 4
	if len(b) < length {
		return nil, transcode.Errorf(transcode.ErrTruncated, "BMP palette ends after %d of %d bytes", len(b), length)
	}
	ramp := true
	h.palette = make([]byte, 0, 4*n)
	for i := range int(n) {
		blue, green, red := b[i*4], b[i*4+1], b[i*4+2]
		h.palette = append(h.palette, red, green, blue, 0xff)
		ramp = ramp && red == byte(i) && green == byte(i) && blue == byte(i)
	}
	switch {
	case h.bits == 1 && n == 2 && string(h.palette) == "\x00\x00\x00\xff\xff\xff\xff\xff":
		h.mode, h.palette = transcode.ModeBit, nil
	case ramp && h.bits > 1:
		h.mode, h.palette = transcode.ModeL, nil
	default:
		h.mode = transcode.ModeP
	}
	return b[length:], nil
}

// Decoder is the [transcode.Decoder] of BMP.
type Decoder struct{}

// Format returns transcode.BMP.
func (Decoder) Format() transcode.Format { return transcode.BMP }

// ID names this implementation.
func (Decoder) ID() string { return "bmp1" }

// Extensions of bitmap files.
func (Decoder) Extensions() []string { return []string{"bmp", "dib"} }

// Sniff looks for the two letters in front.
func (Decoder) Sniff(head []byte) bool { return len(head) >= 2 && head[0] == 'B' && head[1] == 'M' }

// Probe reads the header.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	b, err := transcode.ReadHead(r, size, maxHead)
	if err != nil {
		return transcode.Info{}, err
	}
	h, err := parse(b)
	if err != nil {
		return transcode.Info{}, err
	}
	if err := h.check(size, lim); err != nil {
		return transcode.Info{}, err
	}
	return transcode.Info{Format: transcode.BMP, Mode: h.mode, Width: h.width, Height: h.height}, nil
}

// check compares the header with the limits and with the length of the file.
func (h *header) check(size int64, lim transcode.Limits) error {
	if err := lim.CheckSize(h.width, h.height); err != nil {
		return err
	}
	if h.end() > size {
		return transcode.Errorf(transcode.ErrTruncated, "BMP of %d bytes, want %d", size, h.end())
	}
	return nil
}

// Decode decodes a whole file.
func (Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	h, err := open(src, lim)
	if err != nil {
		return nil, err
	}
	return h.region(src, image.Rect(0, 0, h.width, h.height)), nil
}

// DecodeRegion implements [transcode.RegionDecoder]: it converts the pixels of r only, where
// a pixel takes whole bytes, and otherwise its rows.
func (Decoder) DecodeRegion(_ context.Context, src []byte, lim transcode.Limits, info transcode.Info, r image.Rectangle) (*transcode.Pixels, error) {
	h, err := open(src, lim)
	if err != nil {
		return nil, err
	}
	if err := info.Verify(h.width, h.height, h.mode); err != nil {
		return nil, err
	}
	if h.bits < 8 {
		return h.region(src, image.Rect(0, r.Min.Y, h.width, r.Max.Y)).Cut(image.Rect(r.Min.X, 0, r.Max.X, r.Dy())), nil
	}
	return h.region(src, r), nil
}

// Rows implements [transcode.RowDecoder].
func (Decoder) Rows(head []byte, size int64, from, to int) (begin, end int64, ok bool) {
	h, err := parse(head)
	if err != nil || h.check(size, transcode.Limits{}) != nil || from < 0 || to > h.height {
		return 0, 0, false
	}
	if !h.topDown {
		from, to = h.height-to, h.height-from
	}
	return h.data + int64(from)*h.stride(), min(h.data+int64(to)*h.stride(), size), true
}

// Lying implements [transcode.RowDecoder]: the rows begin at the bottom, blue first.
func (Decoder) Lying([]byte, transcode.Limits, transcode.Info, int, int) (*transcode.Pixels, error) {
	return nil, nil
}

// open reads the header of a whole file.
func open(src []byte, lim transcode.Limits) (*header, error) {
	h, err := parse(src)
	if err != nil {
		return nil, err
	}
	return h, h.check(int64(len(src)), lim)
}

// region decodes the pixels of r, whole rows where they take less than a byte each.
func (h *header) region(src []byte, r image.Rectangle) *transcode.Pixels {
	px := &transcode.Pixels{Width: r.Dx(), Height: r.Dy(), Mode: h.mode, Palette: h.palette}
	px.Pix = make([]byte, px.Len())
	rowBytes := px.RowBytes()
	stride := int(h.stride())
	for y := range px.Height {
		at := r.Min.Y + y
		if !h.topDown {
			at = h.height - 1 - at
		}
		row := src[int(h.data)+at*stride:]
		h.row(px.Pix[y*rowBytes:(y+1)*rowBytes], row[:min(stride, len(row))][r.Min.X*h.bits/8:])
	}
	return px
}

// row decodes one row.
func (h *header) row(dst, src []byte) {
	switch h.layout {
	case indexed:
		if h.bits == 8 {
			copy(dst, src)
		} else {
			unpack(dst, src, h.bits)
		}
	case bgr:
		transcode.SwapRedBlue(dst, src[:len(dst)])
	case bgra:
		swapRB4(dst, src[:len(dst)])
	case bgrx:
		for ; len(dst) >= 3; dst, src = dst[3:], src[4:] {
			dst[0], dst[1], dst[2] = src[2], src[1], src[0]
		}
	}
}
