package jpeg

import (
	"math/bits"
	"slices"
)

// Sequential transcodes a whole file to a sequential one without loss, which
// some decoders read faster than a progressive one. The result equals that of
// jpegtran -copy all -optimize byte for byte: one scan, optimal Huffman tables,
// no restart markers, and metadata as in Progressive. It takes and refuses what
// Progressive does. Of a file that was cut after a few scans it makes the picture
// that these give, without the smoothing by which decoders of progressive files
// hide what is missing.
func Sequential(src []byte, lim Limits) ([]byte, error) {
	w := workspaces.Get().(*workspace)
	defer w.release()
	defer func() { w.c.Segments = nil }() // they are parts of src
	if err := w.dec.decode(src, lim, &w.c); err != nil {
		return nil, err
	}
	return w.enc.encodeSequential(&w.c)
}

// encodeSequential makes the dummy blocks of c flat.
func (e *encoder) encodeSequential(c *Coefficients) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	e.c = c
	defer func() { e.c = nil }()
	var all [maxComponents]scanComponent
	var comps []*scanComponent
	for i := range c.Components {
		p := &c.Components[i]
		p.flatten()
		s := &all[i]
		*s = scanComponent{Component: p, index: i, h: p.H, v: p.V}
		comps = append(comps, s)
	}
	wide, high := c.mcus()
	if len(comps) == 1 {
		s := comps[0]
		wide, high, s.h, s.v = s.Wide, s.High, 1, 1
	}
	freq := new([2][2]histogram) // DC, AC
	for row := range high {
		c.count(comps, row, wide, freq)
	}
	for size, n := range freq[0][0] {
		if size > 11 && n+freq[0][1][size] > 0 {
			return nil, bad(0, "DC coefficient out of range")
		}
	}
	for symbol, n := range freq[1][0] {
		if symbol&15 > 10 && n+freq[1][1][symbol] > 0 {
			return nil, bad(0, "AC coefficient out of range")
		}
	}
	e.start(0)
	sof := byte(mSOF0)
	for i := range c.Components {
		// Baseline has 8 bits for these: T.81 B.2.4.1.
		if slices.Max(c.Components[i].Quant[:]) > 255 {
			sof = mSOF1
		}
	}
	e.header(sof)
	codes := new([2][2]codeTable)
	for table := range c.tables() {
		for class := range 2 {
			made := e.trees[0].build(&freq[class][table])
			e.dht(byte(class<<4|table), &made)
			made.fill(codes[class][table][:])
		}
	}
	var tables [maxComponents]seqTables
	for i := range comps {
		t := c.table(i)
		comps[i].pred = 0
		tables[i] = seqTables{&codes[0][t], &codes[1][t]}
	}
	e.sos(scan{component: allComponents, se: 63})
	for row := range high {
		if !e.sequential(comps, &tables, wide, row*wide, wide) {
			return nil, internal("a symbol has no code")
		}
	}
	e.flush(padding)
	e.bytes(0xFF, mEOI)
	return append([]byte(nil), e.buf[:e.pos]...), nil
}

// count counts the symbols of a row of MCUs.
func (c *Coefficients) count(comps []*scanComponent, row, wide int, freq *[2][2]histogram) {
	for col := range wide {
		for i, s := range comps {
			dc, ac := &freq[0][c.table(i)], &freq[1][c.table(i)]
			for v := range s.v {
				at := (row*s.v+v)*s.Stride + col*s.h
				for h := range s.h {
					b := &s.Blocks[at+h]
					dc[bitLen(int32(b[0])-s.pred)]++
					s.pred = int32(b[0])
					next := 1
					for m := s.Nonzero[at+h] &^ 1; m != 0; m &= m - 1 {
						k := bits.TrailingZeros64(m) & 63
						zeros := k - next
						next = k + 1
						for ; zeros > 15; zeros -= 16 {
							ac[symbolZRL]++
						}
						ac[(uint(zeros)<<4|min(bitLen(int32(b[k])), 15))&255]++
					}
					if next < 64 {
						ac[0]++
					}
				}
			}
		}
	}
}

// seqTables are the codes of a component in a sequential scan.
type seqTables struct{ dc, ac *codeTable }

// maxBlockBytes is more than a block takes in a sequential scan: 64 codes of 16
// bits with up to 16 bits after them, all bytes stuffed, and one word.
const maxBlockBytes = 64*4*2 + 16

// sequential writes n MCUs of one row of a sequential scan of comps, from number
// first on, where a row has wide of them: T.81 F.1.2. It returns false where a
// symbol has no code.
func (e *encoder) sequential(comps []*scanComponent, tables *[maxComponents]seqTables, wide, first, n int) bool {
	row, col := first/wide, first%wide
	e.reserve(n*maxMCU*maxBlockBytes + 32)
	for ; n > 0; n-- {
		for i, s := range comps {
			t := &tables[i]
			for v := range s.v {
				at := (row*s.v+v)*s.Stride + col*s.h
				for h := range s.h {
					b := &s.Blocks[at+h]
					diff := int32(b[0]) - s.pred
					s.pred = int32(b[0])
					if !e.block(b, s.Nonzero[at+h], diff, t.dc, t.ac) {
						return false
					}
				}
			}
		}
		col++
	}
	return true
}

// block writes a block of a sequential scan; maxBlockBytes must be free.
func (w *bitWriter) block(b *Block, nonzero uint64, diff int32, dc, ac *codeTable) bool {
	buf, pos, acc, free := w.buf, w.pos, w.acc, w.free
	size := bitLen(diff)
	code := dc[size&31]
	if code == 0 {
		return false
	}
	v := uint64(code>>8)<<size | uint64(uint32(diff+diff>>31)&(1<<size-1))
	if free -= int(code&31) + int(size); free >= 0 {
		acc |= v << (free & 63)
	} else {
		pos = store(buf, pos, acc|v>>(-free&63))
		free += 64
		acc = v << (free & 63)
	}
	next := 1 // the first coefficient not coded yet
	for m := nonzero &^ 1; m != 0; m &= m - 1 {
		k := bits.TrailingZeros64(m) & 63
		zeros := k - next
		next = k + 1
		c := int32(b[k])
		sign := c >> 31
		size := uint(bits.Len32(uint32((c ^ sign) - sign)))
		for ; zeros > 15; zeros -= 16 {
			code := ac[symbolZRL]
			if code == 0 {
				return false
			}
			if free -= int(code & 31); free >= 0 {
				acc |= uint64(code>>8) << (free & 63)
			} else {
				pos = store(buf, pos, acc|uint64(code>>8)>>(-free&63))
				free += 64
				acc = uint64(code>>8) << (free & 63)
			}
		}
		code := ac[(uint(zeros)<<4|size)&255]
		if code == 0 || size > 15 {
			return false
		}
		v := uint64(code>>8)<<size | uint64(uint32(c+sign)&(1<<size-1))
		if free -= int(code&31) + int(size); free >= 0 {
			acc |= v << (free & 63)
			continue
		}
		pos = store(buf, pos, acc|v>>(-free&63))
		free += 64
		acc = v << (free & 63)
	}
	if next < 64 {
		code := ac[0]
		if code == 0 {
			return false
		}
		if free -= int(code & 31); free >= 0 {
			acc |= uint64(code>>8) << (free & 63)
		} else {
			pos = store(buf, pos, acc|uint64(code>>8)>>(-free&63))
			free += 64
			acc = uint64(code>>8) << (free & 63)
		}
	}
	w.pos, w.acc, w.free = pos, acc, free
	return true
}
