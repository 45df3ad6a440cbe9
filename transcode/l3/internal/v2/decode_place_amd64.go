package v2

import "github.com/pipefs/pipefs/transcode/l3/internal/layout"

// place moves the rows of a band to where they are wanted, the first one to row y.
func (s *Scratch) place(dst layout.Target, y, rows int) {
	at := dst.At(0, y, 0)
	switch {
	case !decodeAVX2 || s.wide || s.samples < 3:
		s.placeRows(dst, y, rows)
	case s.samples == 3 && dst.Pixel == 3 && dst.Channel == 1:
		s.placePixels(rgbAVX2, dst, at, rows)
	case s.samples == 3 && dst.Pixel == 3 && dst.Channel == -1:
		s.placePixels(bgrAVX2, dst, at-2, rows)
	case s.samples == 4 && dst.Pixel == 4 && dst.Channel == 1:
		s.placePixels(rgbaAVX2, dst, at, rows)
	default:
		s.placePlanes(dst, y, rows)
	}
}

// placePixels is for pixels without gaps. write makes 32 of them at least.
func (s *Scratch) placePixels(write func(dst *byte, row int, src *byte, lane, channel, w, h int, masks *[3][lanes]byte), dst layout.Target, at, rows int) {
	lane, channel := s.rowLen, lanes*s.rowLen
	if s.width >= lanes {
		write(&dst.Pix[at], dst.Row, &s.rows[s.row(0, 0)], lane, channel, s.width, rows, &s.accel.masks)
		return
	}
	for r := range rows {
		write(&s.temp[0], 0, &s.rows[s.row(0, r)], lane, channel, lanes, 1, &s.accel.masks)
		copy(dst.Pix[at+r*dst.Row:], s.temp[:s.width*dst.Pixel])
	}
}

// placePlanes is for all other layouts.
func (s *Scratch) placePlanes(dst layout.Target, y, rows int) {
	lane, channel := s.rowLen, lanes*s.rowLen
	direct := dst.Pixel == 1 && s.width >= lanes
	if direct {
		planesAVX2(&dst.Pix[dst.At(0, y, 0)], dst.Row, &s.rows[s.row(0, 0)], lane, channel, s.width, rows, &s.accel.masks, dst.Channel)
	}
	for r := range rows {
		if !direct {
			w := max(s.width, lanes)
			planesAVX2(&s.temp[0], 0, &s.rows[s.row(0, r)], lane, channel, w, 1, &s.accel.masks, w)
			for c := range 3 {
				place(dst.Pix, dst.At(0, y+r, c), dst.Pixel, s.temp[c*w:][:s.width])
			}
		}
		if s.samples == 4 {
			place(dst.Pix, dst.At(0, y+r, 3), dst.Pixel, s.rowOf(3, r))
		}
	}
}
