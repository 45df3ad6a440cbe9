package jpeg

import "math/bits"

// dcFirstMCU decodes n MCUs of a first DC scan: T.81 G.1.2.1.
func (d *decoder) dcFirstMCU(first, n, end int) bool {
	return d.eachBlock(first, n, func(s *scanComponent, at int) bool {
		r := &d.r
		r.fill()
		e := s.dc.fast[r.acc>>(64-lookBits)]
		if e&0xFF00 == 0xFF00 {
			r.acc <<= e & 63
			r.n -= uint(e & 63)
			s.pred += int32(e) >> 16
		} else {
			size := r.symbol(s.dc)
			if size > 15 {
				return false
			}
			s.pred += extend(r.take(uint(size)), uint(size))
		}
		value := s.pred << d.al
		if r.over(end) || s.pred != int32(int16(s.pred)) || value != int32(int16(value)) {
			return false
		}
		s.Blocks[at][0] = int16(value)
		return true
	})
}

// dcRefineMCU decodes n MCUs of a DC refinement scan: one bit a block, T.81
// G.1.2.1.
func (d *decoder) dcRefineMCU(first, n, end int) bool {
	return d.eachBlock(first, n, func(s *scanComponent, at int) bool {
		d.r.fill()
		s.Blocks[at][0] |= int16(d.r.take(1) << d.al)
		return !d.r.over(end)
	})
}

// eachBlock calls f for all blocks of n MCUs of one row, until it returns false.
func (d *decoder) eachBlock(first, n int, f func(s *scanComponent, at int) bool) bool {
	wide, _ := d.mcuCount()
	row, col := first/wide, first%wide
	for ; n > 0; n-- {
		for _, s := range d.comps {
			for v := range s.v {
				at := (row*s.v+v)*s.Stride + col*s.h
				for h := range s.h {
					if !f(s, at+h) {
						return false
					}
				}
			}
		}
		col++
	}
	return true
}

// acFirstBlocks decodes n blocks of the first scan of an AC band: T.81 G.1.2.2.
func (d *decoder) acFirstBlocks(first, n, end int) bool {
	s := d.comps[0]
	at := first/s.Wide*s.Stride + first%s.Wide
	for last := at + n; at < last; at++ {
		if d.eobrun > 0 {
			skip := min(d.eobrun, last-at)
			d.eobrun -= skip
			at += skip - 1
			continue
		}
		b := &s.Blocks[at]
		nonzero := s.Nonzero[at]
		for k := d.ss; k <= d.se; k++ {
			d.r.fill()
			symbol := d.r.symbol(s.ac)
			if symbol > 255 {
				return false
			}
			run, size := int(symbol>>4), uint(symbol&15)
			if size == 0 {
				if run < 15 {
					d.eobrun = 1<<run - 1 + int(d.r.take(uint(run)))
					break
				}
				k += 15
				if k > d.se {
					return false
				}
				continue
			}
			k += run
			value := extend(d.r.take(size), size) << d.al
			if k > d.se || value != int32(int16(value)) {
				return false
			}
			b[k&63] = int16(value)
			nonzero |= 1 << (k & 63)
		}
		s.Nonzero[at] = nonzero
		if d.r.over(end) {
			return false
		}
	}
	return true
}

// acRefineBlocks decodes n blocks of a refinement scan of an AC band: T.81
// G.1.2.3.
func (d *decoder) acRefineBlocks(first, n, end int) bool {
	s := d.comps[0]
	at := first/s.Wide*s.Stride + first%s.Wide
	band := uint64(1)<<d.se<<1 - 1<<d.ss
	for last := at + n; at < last; at++ {
		b := &s.Blocks[at]
		// A coefficient that this scan makes nonzero gets no correction bits in
		// this scan, so old does not change.
		old := s.Nonzero[at] & band
		if d.eobrun > 0 {
			d.eobrun--
			if old != 0 {
				d.correct(b, old)
				if d.r.over(end) {
					return false
				}
			}
			continue
		}
		if !d.refineBlock(b, &s.Nonzero[at], old, band, s.ac) || d.r.over(end) {
			return false
		}
	}
	return true
}

// refineBlock decodes a block of a refinement scan outside of a run of ends of
// band. old has the band's coefficients that are not zero yet.
func (d *decoder) refineBlock(b *Block, nonzero *uint64, old, band uint64, t *huffTable) bool {
	zeros := band &^ old
	// rest has the coefficients that come after the ones dealt with.
	for rest := band; rest != 0; {
		d.r.fill()
		symbol := d.r.symbol(t)
		if symbol > 255 {
			return false
		}
		run, size := int(symbol>>4), symbol&15
		if size > 1 || size == 0 && run < 15 {
			if size > 1 {
				return false
			}
			d.eobrun = 1<<run - 1 + int(d.r.take(uint(run)))
			d.correct(b, old&rest)
			return true
		}
		value := int16(-1) << d.al
		if size == 1 && d.r.take(1) == 1 {
			value = 1 << d.al
		}
		// The coefficient after run zeros is the one meant.
		z := zeros & rest
		for ; run > 0; run-- {
			z &= z - 1
		}
		if z == 0 {
			return false
		}
		k := bits.TrailingZeros64(z)
		passed := uint64(1)<<k<<1 - 1
		d.correct(b, old&rest&passed)
		rest &^= passed
		if size == 1 {
			b[k] = value
			*nonzero |= 1 << k
		}
	}
	return true
}

// correct reads a correction bit for each coefficient in set.
func (d *decoder) correct(b *Block, set uint64) {
	for ; set != 0; set &= set - 1 {
		k := bits.TrailingZeros64(set)
		d.r.fill()
		if d.r.take(1) == 0 {
			continue
		}
		if b[k&63] >= 0 {
			b[k&63] += 1 << d.al
		} else {
			b[k&63] -= 1 << d.al
		}
	}
}
