package jpeg

import "encoding/binary"

// sequentialMCU decodes n MCUs of a sequential scan: T.81 F.2.
func (d *decoder) sequentialMCU(first, n, end int) bool {
	wide, _ := d.mcuCount()
	row, col := first/wide, first%wide
	for ; n > 0; n-- {
		for _, s := range d.comps {
			for v := range s.v {
				at := (row*s.v+v)*s.Stride + col*s.h
				for h := range s.h {
					b := &s.Blocks[at+h]
					nonzero, diff, ok := d.r.block(b, s.dc, s.ac)
					if !ok || d.r.over(end) {
						return false
					}
					s.pred += diff
					if s.pred != int32(int16(s.pred)) {
						return false
					}
					b[0] = int16(s.pred)
					s.Nonzero[at+h] = nonzero
				}
			}
		}
		col++
	}
	return true
}

// block decodes the coefficients of one block of a sequential scan into b, but
// for the DC coefficient, of which it returns the difference.
func (r *bitReader) block(b *Block, dc, ac *huffTable) (nonzero uint64, diff int32, ok bool) {
	data, pos, acc, n := r.data, r.pos, r.acc, r.n
	*b = Block{}

	if n < 32 {
		acc, n, pos = refilled(data, pos, acc, n)
	}
	e := dc.fast[acc>>(64-lookBits)]
	if e&0xFF00 == 0xFF00 {
		diff = int32(e) >> 16
		acc <<= e & 63
		n -= uint(e & 63)
	} else {
		size, length := uint(e>>8), uint(e&63)
		if length == 0 {
			var symbol byte
			if symbol, length = dc.slow(acc); length == 0 {
				r.pos, r.n = pos, n
				return 0, 0, false
			}
			size = uint(symbol)
		}
		acc <<= length & 63
		n -= length
		diff = extend(uint32(acc>>32>>(32-size&63)), size)
		acc <<= size & 63
		n -= size
	}

	// k is the index of the coefficient before.
decode:
	for k := uint32(0); k < 63; {
		acc |= binary.BigEndian.Uint64(data[pos:]) >> (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		// Two codes that are in the table together with their value, and one of
		// any kind, take no more than 56 bits: there is no need to look in between.
		e := ac.fast[acc>>(64-lookBits)]
		for i := 0; int16(e>>16) != 0; i++ {
			if k += e >> 8 & 255; k > 63 {
				r.pos, r.n = pos, n
				return 0, 0, false
			}
			b[k] = int16(e >> 16)
			nonzero |= 1 << (k & 63)
			acc <<= e & 63
			n -= uint(e & 63)
			if i == 2 || k == 63 {
				continue decode
			}
			e = ac.fast[acc>>(64-lookBits)]
		}
		symbol, length := byte(e>>8), uint(e&63)
		if length == 0 {
			symbol, length = ac.slow(acc)
		}
		acc <<= length & 63
		n -= length
		if symbol == 0 && length != 0 {
			break // end of block
		}
		size := uint(symbol & 15)
		k += uint32(symbol>>4) + 1
		// A run of 16 zeros may end the block, which is never needed.
		if symbol == 0xF0 && k <= 63 {
			continue
		}
		if size == 0 || k > 63 {
			r.pos, r.n = pos, n
			return 0, 0, false
		}
		b[k&63] = int16(extend(uint32(acc>>32>>(32-size&63)), size))
		nonzero |= 1 << (k & 63)
		acc <<= size & 63
		n -= size
	}
	r.pos, r.acc, r.n = pos, acc, n
	return nonzero, diff, true
}
