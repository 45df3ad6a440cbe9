package jpeg

import (
	"encoding/binary"
	"math/bits"

	"github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"
)

// dcFirstMCU decodes n MCUs of a first DC scan: T.81 G.1.2.1.
func (d *decoder) dcFirstMCU(first, n, end int) bool {
	return d.eachBlock(first, n, func(s *scanComponent, at int) bool {
		r := &d.r
		r.fill()
		e := s.dc.fast[r.Acc>>(64-lookBits)]
		if e&0xFF00 == 0xFF00 {
			r.Acc <<= e & 63
			r.N -= uint(e & 63)
			s.pred += int32(e) >> 16
		} else {
			size := r.symbol(s.dc)
			if size > 15 {
				return false
			}
			s.pred += kernel.Extend(r.take(uint(size)), uint(size))
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
	blocks, masks := s.Blocks[at:at+n], s.Nonzero[at:at+n]
	ss, se, al := uint32(d.ss), uint32(d.se), uint(d.al)&15
	eobrun, ac := d.eobrun, s.ac
	data, pos, acc, have := d.r.data, d.r.Pos, d.r.Acc, d.r.N
	ok := true
	for i := 0; i < len(blocks) && ok; i++ {
		if eobrun > 0 {
			skip := min(eobrun, len(blocks)-i)
			eobrun -= skip
			i += skip - 1
			continue
		}
		b := &blocks[i]
		nonzero := masks[i]
		// k is the index of the coefficient before.
		for k := ss - 1; k < se; {
			if have < 32 {
				acc |= binary.BigEndian.Uint64(data[pos:]) >> (have & 63)
				pos += int((63 - have) >> 3)
				have |= 56
			}
			e := ac.fast[acc>>(64-lookBits)]
			value := int32(e) >> 16
			length := uint(e & 63)
			if value != 0 {
				k += e >> 8 & 255
				acc <<= length & 63
				have -= length
			} else {
				symbol := byte(e >> 8)
				if length == 0 {
					if symbol, length = ac.slow(acc); length == 0 {
						ok = false
						break
					}
				}
				acc <<= length & 63
				have -= length
				size := uint(symbol & 15)
				run := uint(symbol >> 4)
				if size == 0 && run < 15 {
					eobrun = 1<<run - 1 + int(acc>>32>>(32-run))
					acc <<= run
					have -= run
					break
				}
				k += uint32(run) + 1
				if size == 0 {
					if k > se {
						ok = false
						break
					}
					continue
				}
				value = kernel.Extend(uint32(acc>>32>>(32-size&63)), size)
				acc <<= size & 63
				have -= size
			}
			value <<= al
			if k > se || value != int32(int16(value)) {
				ok = false
				break
			}
			b[k&63] = int16(value)
			nonzero |= 1 << (k & 63)
		}
		masks[i] = nonzero
		ok = ok && pos*8-int(have) <= end*8
	}
	d.r.Pos, d.r.Acc, d.r.N, d.eobrun = pos, acc, have, eobrun
	return ok
}

// acRefineBlocks decodes n blocks of a refinement scan of an AC band: T.81
// G.1.2.3.
func (d *decoder) acRefineBlocks(first, n, end int) bool {
	s := d.comps[0]
	at := first/s.Wide*s.Stride + first%s.Wide
	blocks, masks := s.Blocks[at:at+n], s.Nonzero[at:at+n]
	band := uint64(1)<<d.se<<1 - 1<<d.ss
	al := uint(d.al) & 15
	eobrun, ac := d.eobrun, s.ac
	data, pos, acc, have := d.r.data, d.r.Pos, d.r.Acc, d.r.N
	ok := true
	for i := 0; i < len(blocks) && ok; i++ {
		b := &blocks[i]
		// A coefficient that this scan makes nonzero gets no correction bits in
		// this scan, so old does not change.
		nonzero := masks[i]
		old := nonzero & band
		if eobrun > 0 && old == 0 {
			eobrun--
			continue
		}
		// rest has the coefficients that come after the ones dealt with.
		for rest := band; rest != 0; {
			if have < 32 {
				acc |= binary.BigEndian.Uint64(data[pos:]) >> (have & 63)
				pos += int((63 - have) >> 3)
				have |= 56
			}
			// What is corrected now, and the coefficient that becomes nonzero.
			fix, k, value := old&rest, uint(64), int32(0)
			if eobrun > 0 {
				eobrun--
				rest = 0
			} else {
				e := ac.fast[acc>>(64-lookBits)]
				value = int32(e) >> 16
				length := uint(e & 63)
				run := uint(e>>8&255) - 1
				if value == 0 {
					symbol := byte(e >> 8)
					if length == 0 {
						symbol, length = ac.slow(acc)
					}
					acc <<= length & 63
					have -= length
					run = uint(symbol >> 4)
					switch {
					case length == 0 || symbol&15 > 1:
						ok, run = false, 64
						length = 0
					case symbol&15 == 1:
						value, length = kernel.Extend(uint32(acc>>63), 1), 1
					case run < 15:
						eobrun = 1<<run - 1 + int(acc>>32>>(32-run))
						length, run = run, 64
					default:
						length = 0
					}
				}
				acc <<= length & 63
				have -= length
				near := uint(bits.TrailingZeros64(rest)) + run
				passed := uint64(2)<<(near&63) - 1
				if run == 64 {
					// The end of the band, or an invalid code.
					rest = 0
				} else if rest>>near&1 == 1 && fix&passed == 0 && value >= -1 && value <= 1 {
					// Nothing to correct on the way, which is common.
					fix, k = 0, near
					rest &^= passed
				} else {
					// The coefficient after run zeros is the one meant.
					z := rest &^ old
					for ; run > 0; run-- {
						z &= z - 1
					}
					if z == 0 || value > 1 || value < -1 {
						ok = false
						break
					}
					k = uint(bits.TrailingZeros64(z))
					passed = uint64(2)<<k - 1
					fix &= passed
					rest &^= passed
				}
			}
			for fix != 0 {
				// Correction bits for as many coefficients as one refill allows.
				if have < 32 {
					acc |= binary.BigEndian.Uint64(data[pos:]) >> (have & 63)
					pos += int((63 - have) >> 3)
					have |= 56
				}
				for ; fix != 0 && have > 0; fix &= fix - 1 {
					c := &b[bits.TrailingZeros64(fix)&63]
					// One more bit of the magnitude.
					bit := int16(acc>>63) << al
					sign := *c >> 15
					*c += bit ^ sign - sign
					acc <<= 1
					have--
				}
			}
			if value != 0 {
				b[k&63] = int16(value) << al
				nonzero |= 1 << (k & 63)
			}
		}
		masks[i] = nonzero
		ok = ok && pos*8-int(have) <= end*8
	}
	d.r.Pos, d.r.Acc, d.r.N, d.eobrun = pos, acc, have, eobrun
	return ok
}
