package v2

import "github.com/pipefs/pipefs/transcode/l3/internal/layout"

// writePixels is an assembly function that writes pixels without gaps.
type writePixels func(dst *byte, row int, src *byte, lane, channel, w, h int, masks *colourMasks)

// place moves the rows of a band to where they are wanted, the first one to row y.
func (s *Scratch) place(dst layout.Target, y, rows int) {
	size := 1
	rgb, bgr, rgba := writePixels(rgbAVX2), writePixels(bgrAVX2), writePixels(rgbaAVX2)
	if s.wide {
		size = 2
		rgb, bgr, rgba = rgbWideAVX2, bgrWideAVX2, rgbaWideAVX2
	}
	at := dst.At(0, y, 0)
	switch {
	case !decodeAVX2:
		s.placeRows(dst, y, rows)
	case s.samples == 3 && dst.Pixel == 3*size && dst.Channel == size:
		s.placePixels(rgb, dst, at, rows)
	case s.samples == 3 && dst.Pixel == 3*size && dst.Channel == -size:
		s.placePixels(bgr, dst, at-2*size, rows)
	case s.samples == 4 && dst.Pixel == 4*size && dst.Channel == size:
		s.placePixels(rgba, dst, at, rows)
	default:
		s.placePlanes(dst, y, rows, size)
	}
}

// placePixels is for pixels without gaps.
func (s *Scratch) placePixels(write writePixels, dst layout.Target, at, rows int) {
	lane, channel := s.rowLen, lanes*s.rowLen
	if s.width >= lanes {
		write(&dst.Pix[at], dst.Row, &s.rows[s.row(0, 0)], lane, channel, s.width, rows, &s.accel.masks)
		return
	}
	// The assembly wants 32 pixels at least.
	for r := range rows {
		write(&s.temp[0], 0, &s.rows[s.row(0, r)], lane, channel, lanes, 1, &s.accel.masks)
		copy(dst.Pix[at+r*dst.Row:], s.temp[:s.width*dst.Pixel])
	}
}

// placePlanes is for all other layouts, of samples of size bytes: with a row of each
// channel in s.temp, unless the samples of the target are in rows as well.
func (s *Scratch) placePlanes(dst layout.Target, y, rows, size int) {
	planes := planesAVX2
	if s.wide {
		planes = planesWideAVX2
	}
	lane, channel, w := s.rowLen, lanes*s.rowLen, max(s.width, lanes)
	direct := dst.Pixel == size && s.width >= lanes
	c := 0
	if s.samples >= 3 {
		c = 3
		if direct {
			planes(&dst.Pix[dst.At(0, y, 0)], dst.Row, &s.rows[s.row(0, 0)], lane, channel, s.width, rows, &s.accel.masks, dst.Channel)
		}
		for r := 0; r < rows && !direct; r++ {
			planes(&s.temp[0], 0, &s.rows[s.row(0, r)], lane, channel, w, 1, &s.accel.masks, w*size)
			for c := range 3 {
				s.placeRow(dst, y+r, c, s.temp[c*w*size:][:s.width*size])
			}
		}
	}
	for ; c < s.samples; c++ {
		for r := range rows {
			row := s.rowOf(c, r)
			if s.wide {
				wordsAVX2(&s.temp[0], &s.rows[s.row(2*c, r)], channel, w)
				row = s.temp[:2*s.width]
			}
			s.placeRow(dst, y+r, c, row)
		}
	}
}

// placeRow moves the samples of channel c to row y.
func (s *Scratch) placeRow(dst layout.Target, y, c int, row []byte) {
	if s.wide {
		placeWords(dst.Pix, dst.At(0, y, c), dst.Pixel, row)
	} else {
		place(dst.Pix, dst.At(0, y, c), dst.Pixel, row)
	}
}

// placeWords is place for samples of 16 bits.
func placeWords(pix []byte, at, step int, row []byte) {
	if step == 2 {
		copy(pix[at:], row)
		return
	}
	for ; len(row) >= 2; row = row[2:] {
		to := pix[at:][:2]
		to[0], to[1] = row[0], row[1]
		at += step
	}
}
