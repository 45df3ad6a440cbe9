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
	return h.rows(src, 0, h.height)
}

// DecodeRegion implements [transcode.RegionDecoder]: of binary files it converts the rows
// of r only.
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
	from, to := r.Min.Y, r.Max.Y
	if h.plain {
		from, to = 0, h.height
	}
	px, err := h.rows(src, from, to)
	if err != nil {
		return nil, err
	}
	return px.Cut(r.Sub(image.Pt(0, from))), nil
}

// Rows implements [transcode.RowDecoder]: the rows of plain files can be anywhere.
func (Decoder) Rows(head []byte, size int64, from, to int) (begin, end int64, ok bool) {
	h, err := parse(head)
	if err != nil || h.plain || h.check(size, transcode.Limits{}) != nil || from < 0 || to > h.height {
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
	if h.maxval != 255 || h.plain {
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

// rows decodes the rows from one on, up to and without another: of plain files, all.
func (h *header) rows(src []byte, from, to int) (*transcode.Pixels, error) {
	px := &transcode.Pixels{Width: h.width, Height: to - from, Mode: h.mode}
	if h.mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	px.Pix = make([]byte, px.Len())
	if src = src[h.data:]; !h.plain {
		src = src[from*h.rowBytes():]
	}
	var err error
	switch {
	case h.plain && h.maxval == 0:
		err = plainBits(px.Pix, src)
	case h.plain:
		err = h.plain10(px, src)
	case h.maxval == 0:
		bits(px, src, h.rowBytes())
	case h.maxval == 255:
		copy(px.Pix, src)
	case h.maxval == 65535:
		for i := 0; i < len(px.Pix); i += 2 {
			px.Pix[i], px.Pix[i+1] = src[i+1], src[i]
		}
	default:
		h.stretch(px, src)
	}
	if err != nil {
		return nil, err
	}
	return px, nil
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

// table maps the values from 0 to maxval to the full range of px, as Pillow
// does: in double precision, halves to even.
func (h *header) table(px *transcode.Pixels) []uint16 {
	most := 255.0
	if px.Type == transcode.Uint16 {
		most = 65535
	}
	t := make([]uint16, h.maxval+1)
	for v := range t {
		t[v] = uint16(math.RoundToEven(float64(float64(v)/float64(h.maxval)) * most))
	}
	return t
}

// stretch scales binary values to the full range. A value over the maxval
// counts as full intensity.
func (h *header) stretch(px *transcode.Pixels, src []byte) {
	table := h.table(px)
	for i := range len(px.Pix) / px.Type.Size() {
		var v int
		if h.maxval > 255 {
			v = int(binary.BigEndian.Uint16(src[2*i:]))
		} else {
			v = int(src[i])
		}
		put(px, i, table[min(v, h.maxval)])
	}
}

// put stores value i of px.
func put(px *transcode.Pixels, i int, v uint16) {
	if px.Type == transcode.Uint16 {
		binary.LittleEndian.PutUint16(px.Pix[2*i:], v)
	} else {
		px.Pix[i] = byte(v)
	}
}

// plainBits reads the digits of P1, between which blanks are optional.
func plainBits(dst, src []byte) error {
	n := 0
	for i := 0; i < len(src) && n < len(dst); i++ {
		switch c := src[i]; {
		case c == '#':
			i = comment(src, i)
		case c == '0' || c == '1':
			dst[n] = '1' - c
			n++
		case !isSpace(c):
			return transcode.Errorf(transcode.ErrBad, "PBM: %q among the pixels", c)
		}
	}
	if n < len(dst) {
		return transcode.Errorf(transcode.ErrTruncated, "PBM: %d of %d pixels", n, len(dst))
	}
	return nil
}

// plain10 reads the numbers of P2 and P3.
func (h *header) plain10(px *transcode.Pixels, src []byte) error {
	table := h.table(px)
	i, want := 0, len(px.Pix)/px.Type.Size()
	for n := range want {
		for i < len(src) && (isSpace(src[i]) || src[i] == '#') {
			if src[i] == '#' {
				i = comment(src, i)
			}
			i++
		}
		if i >= len(src) {
			return transcode.Errorf(transcode.ErrTruncated, "PNM: %d of %d values", n, want)
		}
		v := 0
		for ; i < len(src) && !isSpace(src[i]) && src[i] != '#'; i++ {
			if src[i] < '0' || src[i] > '9' {
				return transcode.Errorf(transcode.ErrBad, "PNM: %q among the pixels", src[i])
			}
			if v = v*10 + int(src[i]-'0'); v > h.maxval {
				return transcode.Errorf(transcode.ErrBad, "PNM: a value over the maxval of %d", h.maxval)
			}
		}
		put(px, n, table[v])
	}
	return nil
}

// comment returns the offset of the end of the line.
func comment(b []byte, i int) int {
	for i < len(b) && b[i] != '\n' && b[i] != '\r' {
		i++
	}
	return i
}
