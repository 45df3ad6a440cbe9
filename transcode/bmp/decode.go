package bmp

import (
	"context"
	"encoding/binary"
	"image"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/redblue"
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
	h, err := open(src, lim)
	if err != nil {
		return nil, err
	}
	if err := info.Verify(h.width, h.height, h.mode); err != nil {
		return nil, err
	}
	return h.rows(src, r.Min.Y, r.Max.Y).Cut(image.Rect(r.Min.X, 0, r.Max.X, r.Dy())), nil
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
	px := &transcode.Pixels{Width: h.width, Height: to - from, Mode: h.mode, Palette: h.palette}
	px.Pix = make([]byte, px.Len())
	rowBytes := px.RowBytes()
	stride := int(h.stride())
	for y := range px.Height {
		at := from + y
		if !h.topDown {
			at = h.height - 1 - at
		}
		row := src[int(h.data)+at*stride:]
		h.row(px.Pix[y*rowBytes:(y+1)*rowBytes], row[:min(stride, len(row))])
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
	case bgr555, bgr565:
		h.row16(dst, src)
	case bgr:
		redblue.Swap(dst, src[:len(dst)])
	case bgra:
		swapRB4(dst, src[:len(dst)])
	case rgba:
		copy(dst, src)
	case bgrx:
		for ; len(dst) >= 3; dst, src = dst[3:], src[4:] {
			dst[0], dst[1], dst[2] = src[2], src[1], src[0]
		}
	case xbgr:
		for ; len(dst) >= 3; dst, src = dst[3:], src[4:] {
			dst[0], dst[1], dst[2] = src[3], src[2], src[1]
		}
	case abgr:
		for ; len(dst) >= 4; dst, src = dst[4:], src[4:] {
			dst[0], dst[1], dst[2], dst[3] = src[3], src[2], src[1], src[0]
		}
	}
}

// row16 decodes a row of pixels of 16 bits, stretching 5 and 6 bits to 8.
func (h *header) row16(dst, src []byte) {
	green, red, most := 5, 10, uint32(31)
	if h.layout == bgr565 {
		red, most = 11, 63
	}
	for ; len(dst) >= 3; dst, src = dst[3:], src[2:] {
		v := uint32(binary.LittleEndian.Uint16(src))
		dst[0] = byte(v >> red & 31 * 255 / 31)
		dst[1] = byte(v >> green & most * 255 / most)
		dst[2] = byte(v & 31 * 255 / 31)
	}
}
