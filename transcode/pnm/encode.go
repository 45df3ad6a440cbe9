package pnm

import (
	"strconv"

	"github.com/pipefs/pipefs/transcode"
)

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
