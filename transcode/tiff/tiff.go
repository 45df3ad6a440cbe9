// Package tiff reads TIFF files.
//
// # Nouns
//
// A file is a header and a chain of directories, one a page. A directory is a
// list of entries in the order of their tags; each has a type, a count, and its
// values or their offset. The pixels stand in strips or tiles.
//
// # What is read, and as what
//
// Pixels come out as Pillow reads them, of the first page, for what both Pillow
// and golang.org/x/image/tiff know: black and white, grey of 8 and 16 bits,
// palettes of 8 bits, RGB of 8 and 16 bits, RGBA with alpha that is not
// premultiplied; uncompressed, PackBits, LZW, deflate. All else, and an
// orientation, which Pillow applies to TIFF files alone, is unsupported.
package tiff

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"io"

	"golang.org/x/image/tiff"

	"github.com/pipefs/pipefs/transcode"
)

// The tags that matter.
const (
	tagWidth        = 256
	tagHeight       = 257
	tagBits         = 258
	tagCompression  = 259
	tagPhotometric  = 262
	tagFillOrder    = 266
	tagOrientation  = 274
	tagSamples      = 277
	tagRowsPerStrip = 278
	tagPlanar       = 284
	tagTileHeight   = 323
	tagPredictor    = 317
	tagExtraSamples = 338
	tagSampleFormat = 339
)

// Compressions that are read. x/image knows fax codes too, but inverts them.
const (
	compressionNone       = 1
	compressionLZW        = 5
	compressionDeflate    = 8
	compressionPackBits   = 32773
	compressionDeflateOld = 32946
)

// maxEntries bounds a directory.
const maxEntries = 4096

// directory holds the values of the entries with small integers in them.
type directory struct {
	order  binary.ByteOrder
	values map[uint16][]uint32
	sorted bool
	next   uint32 // offset of the next directory, 0 for none
}

// get is the first value of an entry, or fallback where there is no such entry.
func (d *directory) get(tag uint16, fallback uint32) uint32 {
	if v := d.values[tag]; len(v) > 0 {
		return v[0]
	}
	return fallback
}

// readDirectory reads the first directory.
func readDirectory(r io.ReaderAt, size int64) (*directory, error) {
	w := transcode.NewWindow(r, size)
	b, err := w.At(0, 8)
	if err != nil {
		return nil, err
	}
	d := &directory{order: binary.LittleEndian, values: map[uint16][]uint32{}, sorted: true}
	if b[0] == 'M' {
		d.order = binary.BigEndian
	}
	if !(Decoder{}).Sniff(b) {
		return nil, transcode.Errorf(transcode.ErrBad, "not a TIFF file")
	}
	at := int64(d.order.Uint32(b[4:]))
	if b, err = w.At(at, 2); err != nil {
		return nil, err
	}
	n := int(d.order.Uint16(b))
	if n > maxEntries {
		return nil, transcode.Errorf(transcode.ErrBad, "TIFF directory of %d entries", n)
	}
	if b, err = w.At(at+2, 12*n+4); err != nil {
		return nil, err
	}
	entries := append([]byte(nil), b...)
	d.next = d.order.Uint32(entries[12*n:])
	last := -1
	for ; n > 0; n, entries = n-1, entries[12:] {
		tag := d.order.Uint16(entries)
		d.sorted = d.sorted && int(tag) > last
		last = int(tag)
		switch tag {
		case tagWidth, tagHeight, tagBits, tagCompression, tagPhotometric, tagFillOrder, tagOrientation,
			tagSamples, tagRowsPerStrip, tagPlanar, tagTileHeight, tagPredictor, tagExtraSamples, tagSampleFormat:
			if d.values[tag], err = d.entry(w, entries[:12]); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// entry reads the values of one entry.
func (d *directory) entry(w *transcode.Window, e []byte) ([]uint32, error) {
	kind, count := d.order.Uint16(e[2:]), d.order.Uint32(e[4:])
	size := 0
	switch kind {
	case 1:
		size = 1
	case 3:
		size = 2
	case 4:
		size = 4
	}
	if size == 0 || count == 0 || count > 16 {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "TIFF: tag %d has %d values of type %d", d.order.Uint16(e), count, kind)
	}
	b := e[8:12]
	if n := size * int(count); n > 4 {
		var err error
		if b, err = w.At(int64(d.order.Uint32(b)), n); err != nil {
			return nil, err
		}
	}
	values := make([]uint32, count)
	for i := range values {
		switch size {
		case 1:
			values[i] = uint32(b[i])
		case 2:
			values[i] = uint32(d.order.Uint16(b[2*i:]))
		default:
			values[i] = d.order.Uint32(b[4*i:])
		}
	}
	return values, nil
}

// mode is what the pixels decode to; ModeNone for what Pillow and x/image do
// not both read, or not alike.
func (d *directory) mode() transcode.Mode {
	bits := d.values[tagBits]
	if len(bits) == 0 {
		bits = []uint32{1}
	}
	samples := int(d.get(tagSamples, 1))
	for _, b := range bits {
		if b != bits[0] {
			return transcode.ModeNone
		}
	}
	for _, f := range d.values[tagSampleFormat] {
		if f != 1 {
			return transcode.ModeNone
		}
	}
	most := uint32(1) // of the predictor
	switch d.get(tagCompression, compressionNone) {
	case compressionNone, compressionPackBits:
		// x/image undoes a predictor here too, libtiff does not.
	case compressionLZW, compressionDeflate, compressionDeflateOld:
		if bits[0] > 1 {
			most = 2
		}
	default:
		return transcode.ModeNone
	}
	if !d.sorted || len(bits) != samples || d.get(tagPredictor, 1) > most ||
		d.get(tagFillOrder, 1) != 1 || d.get(tagOrientation, 1) != 1 ||
		d.get(tagPlanar, 1) != 1 && samples > 1 {
		return transcode.ModeNone
	}
	extra := d.values[tagExtraSamples]
	switch key := [3]int{int(d.get(tagPhotometric, 99)), samples, int(bits[0])}; key {
	case [3]int{0, 1, 1}, [3]int{1, 1, 1}:
		return transcode.ModeBit
	case [3]int{0, 1, 8}, [3]int{1, 1, 8}:
		return transcode.ModeL
	case [3]int{1, 1, 16}:
		return transcode.ModeI16
	case [3]int{2, 3, 8}:
		return transcode.ModeRGB
	case [3]int{2, 3, 16}:
		return transcode.ModeRGB16
	case [3]int{3, 1, 8}:
		return transcode.ModeP
	case [3]int{2, 4, 8}, [3]int{2, 4, 16}:
		if len(extra) != 1 || extra[0] != 2 {
			return transcode.ModeNone
		}
		if bits[0] == 16 {
			return transcode.ModeRGBA16
		}
		return transcode.ModeRGBA
	}
	return transcode.ModeNone
}

// Decoder is the [transcode.Decoder] of TIFF.
type Decoder struct{}

// Format returns transcode.TIFF.
func (Decoder) Format() transcode.Format { return transcode.TIFF }

// ID names this implementation.
func (Decoder) ID() string { return "tiff1" }

// Extensions of TIFF files.
func (Decoder) Extensions() []string { return []string{"tif", "tiff"} }

// Sniff looks for the byte order and the number 42.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= 4 && (string(head[:4]) == "II*\x00" || string(head[:4]) == "MM\x00*")
}

// Probe reads the first directory. What cannot be decoded has ModeNone.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	d, err := readDirectory(r, size)
	if err != nil {
		return transcode.Info{}, err
	}
	info := transcode.Info{
		Format: transcode.TIFF, Mode: d.mode(),
		Width: int(d.get(tagWidth, 0)), Height: int(d.get(tagHeight, 0)),
		Animated: d.next != 0,
	}
	if o := d.get(tagOrientation, 0); o <= 8 {
		info.Orientation = uint8(o)
	}
	return info, lim.CheckSize(info.Width, info.Height)
}

// maxRatio is the most that LZW compresses, 4,096 bytes in a code of 12 bits: a
// smaller file is not complete, and not worth the memory that it asks for.
const maxRatio = 4096 * 8 / 12

// Scratch implements [transcode.Scratcher]: the picture before it is copied, in which RGB has four
// channels, and a strip or tile, of which there may be only one.
func (Decoder) Scratch(src []byte, info transcode.Info, _ bool) int64 {
	d, err := readDirectory(bytes.NewReader(src), int64(len(src)))
	if err != nil {
		return 0
	}
	pixels, each := int64(info.Width)*int64(info.Height), int64(info.Mode.Depth()/8)
	rows := min(int64(d.get(tagTileHeight, d.get(tagRowsPerStrip, uint32(info.Height)))), int64(info.Height))
	channels := info.Mode.Channels()
	if channels == 3 {
		channels = 4
	}
	return each * (pixels*int64(channels) + 2*rows*int64(info.Width)*int64(info.Mode.Channels()))
}

// Decode decodes the first page.
func (d Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	info, err := d.Probe(bytes.NewReader(src), int64(len(src)), lim)
	if err != nil {
		return nil, err
	}
	if info.Mode == transcode.ModeNone {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "TIFF of a kind that is not decoded")
	}
	if int64(info.Width)*int64(info.Height) > int64(len(src))*8*maxRatio {
		return nil, transcode.Errorf(transcode.ErrTruncated, "TIFF of %d by %d pixels in %d bytes", info.Width, info.Height, len(src))
	}
	img, err := tiff.Decode(bytes.NewReader(src))
	if err != nil {
		var unsupported tiff.UnsupportedError
		switch {
		case errors.As(err, &unsupported):
			return nil, transcode.Errorf(transcode.ErrUnsupported, "%v", err)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, transcode.Errorf(transcode.ErrTruncated, "TIFF: %v", err)
		}
		return nil, transcode.Errorf(transcode.ErrBad, "%v", err)
	}
	px := &transcode.Pixels{Width: info.Width, Height: info.Height, Mode: info.Mode}
	if info.Mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	if img.Bounds() != image.Rect(0, 0, px.Width, px.Height) {
		return nil, transcode.Errorf(transcode.ErrBad, "TIFF: pixels of %v", img.Bounds())
	}
	px.Pix = make([]byte, px.Len())
	if !fill(px, img) {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "TIFF: %T for mode %v", img, px.Mode)
	}
	return px, nil
}

// fill copies the pixels of img, row by row; false where the type is not the
// one that goes with the mode.
func fill(px *transcode.Pixels, img image.Image) bool {
	width := px.RowBytes()
	switch m := img.(type) {
	case *image.Gray:
		rows(px, m.Pix, m.Stride, func(dst, src []byte) { copy(dst, src) })
		if px.Mode == transcode.ModeBit {
			for i := range px.Pix {
				px.Pix[i] &= 1
			}
		}
		return px.Mode == transcode.ModeL || px.Mode == transcode.ModeBit
	case *image.Gray16:
		rows(px, m.Pix, m.Stride, swap)
		return px.Mode == transcode.ModeI16
	case *image.Paletted:
		for _, c := range m.Palette {
			v := color.NRGBAModel.Convert(c).(color.NRGBA)
			px.Palette = append(px.Palette, v.R, v.G, v.B, v.A)
		}
		rows(px, m.Pix, m.Stride, func(dst, src []byte) { copy(dst, src) })
		return px.Mode == transcode.ModeP
	case *image.RGBA: // RGB, padded
		rows(px, m.Pix, m.Stride, func(dst, src []byte) {
			for ; len(dst) >= 3 && len(src) >= 4; dst, src = dst[3:], src[4:] {
				dst[0], dst[1], dst[2] = src[0], src[1], src[2]
			}
		})
		return px.Mode == transcode.ModeRGB
	case *image.NRGBA:
		rows(px, m.Pix, m.Stride, func(dst, src []byte) { copy(dst, src[:width]) })
		return px.Mode == transcode.ModeRGBA
	case *image.RGBA64: // likewise
		rows(px, m.Pix, m.Stride, func(dst, src []byte) {
			for ; len(dst) >= 6 && len(src) >= 8; dst, src = dst[6:], src[8:] {
				swap(dst[:6], src[:6])
			}
		})
		return px.Mode == transcode.ModeRGB16
	case *image.NRGBA64:
		rows(px, m.Pix, m.Stride, swap)
		return px.Mode == transcode.ModeRGBA16
	}
	return false
}

// rows calls f for each row.
func rows(px *transcode.Pixels, src []byte, stride int, f func(dst, src []byte)) {
	n := px.RowBytes()
	for y := range px.Height {
		f(px.Pix[y*n:(y+1)*n], src[y*stride:])
	}
}

// swap turns big-endian values of 16 bits into little-endian ones.
func swap(dst, src []byte) {
	for i := 0; i+1 < len(dst); i += 2 {
		dst[i], dst[i+1] = src[i+1], src[i]
	}
}
