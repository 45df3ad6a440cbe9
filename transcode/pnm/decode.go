package pnm

import (
	"context"
	"encoding/binary"
	"image"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

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
