package jpeg

import "github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"

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
	*b = Block{}
	if diff, ok = r.difference(dc); !ok {
		return 0, 0, false
	}
	r.K, r.Nonzero, r.Entry = 0, 0, 0
	ok = r.coefficients(b, ac)
	return r.Nonzero, diff, ok
}

// skip is block where only the difference is wanted; b is changed.
func (r *bitReader) skip(b *Block, dc, ac *huffTable) (diff int32, ok bool) {
	if diff, ok = r.difference(dc); !ok {
		return 0, false
	}
	r.K, r.Entry = 0, 0
	return diff, kernel.Skip(&r.Cursor, r.data, ac.skipping()) == kernel.AtEnd || r.coefficients(b, ac)
}

// difference decodes that of a DC coefficient to the one before it: T.81 F.2.2.1.
func (r *bitReader) difference(dc *huffTable) (diff int32, ok bool) {
	r.fill()
	e := dc.fast[r.Acc>>(64-lookBits)]
	if e&0xFF00 == 0xFF00 {
		r.Acc <<= e & 63
		r.N -= uint(e & 63)
		return int32(e) >> 16, true
	}
	return r.longDifference(dc, e)
}

// longDifference is difference where the table does not know its value.
func (r *bitReader) longDifference(dc *huffTable, e uint32) (diff int32, ok bool) {
	size, length := uint(e>>8), uint(e&63)
	if length == 0 {
		var symbol byte
		if symbol, length = dc.slow(r.Acc); length == 0 {
			return 0, false
		}
		size = uint(symbol)
	}
	r.Acc <<= length & 63
	r.N -= length
	return kernel.Extend(r.take(size), size), true
}

// coefficients decodes the AC coefficients of a block behind r.K.
func (r *bitReader) coefficients(b *Block, ac *huffTable) bool {
	stop := kernel.Coefficients(&r.Cursor, (*[64]int16)(b), r.data, &ac.fast)
	for stop == kernel.AtLong {
		symbol, length := ac.slow(r.Acc)
		if length == 0 {
			break
		}
		r.Entry = uint32(length) | uint32(symbol)<<8
		stop = kernel.Coefficients(&r.Cursor, (*[64]int16)(b), r.data, &ac.fast)
	}
	return stop == kernel.AtEnd
}
