package v2

import (
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
)

// codedChannel is the order of channels in a patch: where channel c of the picture is.
func codedChannel(c, samples int) int {
	if samples >= 3 && c < 2 {
		return 1 - c
	}
	return c
}

// placeRows copies the rows of a band to the target, the first one to row y.
func (s *Scratch) placeRows(dst layout.Target, y, rows int) {
	for r := range rows {
		var row [maxChannels][]byte
		for c := range s.coded {
			row[c] = s.rowOf(c, r)
		}
		if s.wide {
			s.placeWide(dst, y+r, &row)
			continue
		}
		if s.colour != colourNone {
			row[1], row[2] = s.uncolour(row[0], row[1], row[2])
		}
		for c := range s.samples {
			place(dst.Pix, dst.At(0, y+r, c), dst.Pixel, row[codedChannel(c, s.samples)])
		}
	}
}

// place copies a row of bytes to every step-th byte from at on.
func place(pix []byte, at, step int, row []byte) {
	if step == 1 {
		copy(pix[at:], row)
		return
	}
	for _, v := range row {
		pix[at] = v
		at += step
	}
}

// uncolour returns red and blue. It does not change its arguments: the next band is
// predicted from them.
func (s *Scratch) uncolour(g, r, b []byte) (red, blue []byte) {
	red, blue = s.temp[:len(g)], s.temp[len(g):2*len(g)]
	r, b = r[:len(g)], b[:len(g)]
	for x, g := range g {
		v := r[x] + g - 128
		red[x] = v
		if s.colour == colourAvg {
			g = byte((int(v) + int(g) + 1) >> 1)
		}
		blue[x] = b[x] + g - 128
	}
	return red, blue
}

// placeWide is for a row of samples of 16 bits.
func (s *Scratch) placeWide(dst layout.Target, y int, row *[maxChannels][]byte) {
	c := 0
	if s.colour != colourNone {
		s.placeColoured(dst, y, row)
		c = 3
	}
	for ; c < s.samples; c++ {
		i := 2 * codedChannel(c, s.samples)
		at, low, high := dst.At(0, y, c), row[i], row[i+1]
		high = high[:len(low)]
		for x, v := range low {
			binary.LittleEndian.PutUint16(dst.Pix[at:], uint16(v)|uint16(high[x])<<8)
			at += dst.Pixel
		}
	}
}

// placeColoured is for the channels that have been transformed.
func (s *Scratch) placeColoured(dst layout.Target, y int, row *[maxChannels][]byte) {
	const half = 1 << 15
	gLow := row[0]
	n := len(gLow)
	gHigh, rLow, rHigh, bLow, bHigh := row[1][:n], row[2][:n], row[3][:n], row[4][:n], row[5][:n]
	at := dst.At(0, y, 0)
	for x, v := range gLow {
		g := uint16(v) | uint16(gHigh[x])<<8
		r := uint16(rLow[x]) | uint16(rHigh[x])<<8
		b := uint16(bLow[x]) | uint16(bHigh[x])<<8
		r += g - half
		if s.colour == colourAvg {
			b += uint16((uint32(r)+uint32(g)+1)>>1) - half
		} else {
			b += g - half
		}
		binary.LittleEndian.PutUint16(dst.Pix[at:], r)
		binary.LittleEndian.PutUint16(dst.Pix[at+dst.Channel:], g)
		binary.LittleEndian.PutUint16(dst.Pix[at+2*dst.Channel:], b)
		at += dst.Pixel
	}
}
