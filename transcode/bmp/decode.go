package bmp

import (
	"context"
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
		redblue.Swap(dst, src[:len(dst)])
	case bgra:
		swapRB4(dst, src[:len(dst)])
	case bgrx:
		for ; len(dst) >= 3; dst, src = dst[3:], src[4:] {
			dst[0], dst[1], dst[2] = src[2], src[1], src[0]
		}
	}
}
