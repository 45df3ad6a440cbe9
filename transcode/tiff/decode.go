package tiff

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"io"

	"golang.org/x/image/tiff"

	"github.com/pipefs/pipefs/transcode"
)

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
