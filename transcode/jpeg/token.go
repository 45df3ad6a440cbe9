package jpeg

import (
	"math/bits"
	"slices"
)

// A token is a symbol to be Huffman-coded and the bits that follow it. Scans are
// written in two passes, since the table depends on all symbols; tokens are what
// the first pass leaves for the second, so that the coefficients are walked only
// once.
//
//	bits  0–15  the bits that follow, right-aligned
//	bits 16–20  how many there are, 0 to 16
//	bits 21–29  the symbol, or rawSymbol for bits without one
type token = uint32

const (
	tokenCount  = 16
	tokenSymbol = 21
	rawSymbol   = 256
)

const (
	symbolZRL = 0xF0 // 16 zeros: T.81 F.1.2.2.1
	// maxRun is the longest run of ends of band: T.81 G.1.2.2.
	maxRun = 0x7FFF
	// maxPending is libjpeg's own limit: it ends a run of ends of band when more
	// correction bits than this wait for it. Its buffer holds 1000, and the next
	// block must fit in.
	maxPending = 1000 - 64 + 1
	// maxBlockTokens is more than one block adds to a stream: a symbol for each
	// coefficient, a few for long runs of zeros, and correction bits.
	maxBlockTokens = 96
)

// stream collects the tokens of one scan of an AC band.
type stream struct {
	tokens []token // used up to n
	n      int
	freq   histogram

	run     uint32 // of ends of band
	slot    int    // refinement: where the run's token goes
	waiting int    // refinement: correction bits that belong to the run
	tail    uint64 // the last tailN of them, not in a token yet
	tailN   uint
}

func (s *stream) reset() {
	s.n, s.run, s.waiting, s.tail, s.tailN = 0, 0, 0, 0, 0
	clear(s.freq[:])
}

// reserve makes room for the tokens of that many blocks.
func (s *stream) reserve(blocks int) {
	need := s.n + (blocks+1)*maxBlockTokens
	if need > len(s.tokens) {
		grown := make([]token, need+need/4)
		copy(grown, s.tokens[:s.n])
		s.tokens = grown
	}
}

// put adds a symbol and the count bits, at most 16, that follow it.
func (s *stream) put(symbol uint32, extra uint32, count uint) {
	s.freq[symbol&255]++
	s.tokens[s.n] = symbol<<tokenSymbol | uint32(count)<<tokenCount | extra
	s.n++
}

// putLong adds a symbol and any number of bits up to 64 that follow it.
func (s *stream) putLong(symbol uint32, extra uint64, count uint) {
	if count <= 16 {
		s.put(symbol, uint32(extra), count)
		return
	}
	count -= 16
	s.put(symbol, uint32(extra>>count&0xFFFF), 16)
	s.raw(extra, count)
}

// raw adds the low count bits of extra without a symbol.
func (s *stream) raw(extra uint64, count uint) {
	for count > 0 {
		n := min(count, 16)
		count -= n
		s.tokens[s.n] = rawSymbol<<tokenSymbol | uint32(n)<<tokenCount | uint32(extra>>count)&(1<<n-1)
		s.n++
	}
}

// runToken returns the token for the run of ends of band, and counts it.
func (s *stream) runToken() token {
	size := uint32(bits.Len32(s.run)) - 1
	s.freq[size<<4&255]++
	return size<<4<<tokenSymbol | size<<tokenCount | s.run&(1<<size-1)
}

// first codes the coefficients in set, which are those of the band that are not
// zero when shifted right by al, of a block in a first scan up to se: T.81
// G.1.2.2.
func (s *stream) first(b *Block, set uint64, ss, se, al uint) {
	if set == 0 {
		if s.run++; s.run == maxRun {
			s.endRun()
		}
		return
	}
	if s.run > 0 {
		s.endRun()
	}
	next := ss // the first coefficient not coded yet
	for ; set != 0; set &= set - 1 {
		k := uint(bits.TrailingZeros64(set)) & 63
		zeros := k - next
		next = k + 1
		for zeros > 15 {
			s.put(symbolZRL, 0, 0)
			zeros -= 16
		}
		c := int32(b[k])
		sign := c >> 31
		magnitude := uint32((c^sign)-sign) >> (al & 31)
		size := uint(bits.Len32(magnitude))
		s.put(uint32(zeros<<4|size), (magnitude^uint32(sign))&(1<<(size&31)-1), size)
	}
	if next <= se {
		if s.run++; s.run == maxRun {
			s.endRun()
		}
	}
}

func (s *stream) endRun() {
	s.tokens[s.n] = s.runToken()
	s.n++
	s.run = 0
}

// refine codes a block in a refinement scan for coefficients ss to se: T.81
// G.1.2.3. old has the coefficients that were not zero before, fresh those that
// become so; corrections are the bits of the old ones, the last one lowest.
func (s *stream) refine(b *Block, fresh, old, corrections uint64, ss, se uint) {
	left := uint(bits.OnesCount64(old))
	if fresh != 0 {
		if s.run > 0 {
			s.endRefineRun()
		}
		next := ss
		for ; fresh != 0; fresh &= fresh - 1 {
			k := uint(bits.TrailingZeros64(fresh)) & 63
			between := old & (1<<k - 1) >> (next & 63) << (next & 63)
			passed := uint(bits.OnesCount64(between))
			zeros := k - next - passed
			sign := uint64(^b[k]>>15) & 1 // 1 for positive
			for zeros > 15 {
				// Rare: codes for 16 zeros, each with the corrections up to the
				// next coefficient that is not zero.
				before := sixteenZeros(between, next, k)
				count := uint(bits.OnesCount64(between & (1<<before - 1)))
				left -= count
				s.putLong(symbolZRL, corrections>>left&(1<<count-1), count)
				between &^= 1<<before - 1
				passed -= count
				zeros -= 16
				next = before
			}
			left -= passed
			extra := sign<<(passed&63) | corrections>>(left&63)&(1<<(passed&63)-1)
			if passed < 16 {
				s.put(uint32(zeros<<4|1), uint32(extra), passed+1)
			} else {
				s.putLong(uint32(zeros<<4|1), extra, passed+1)
			}
			next = k + 1
		}
		if next > se {
			return
		}
		corrections &= 1<<left - 1
	}
	// The rest of the block joins a run of ends of band. Its token is written
	// when its length is known; the correction bits come after it.
	if s.run == 0 {
		s.slot = s.n
		s.n++
	}
	s.run++
	if left > 0 {
		s.waiting += int(left)
		s.wait(corrections, left)
	}
	if s.run == maxRun || s.waiting > maxPending {
		s.endRefineRun()
	}
}

// wait adds count bits, at most 63, to those that belong to the run.
func (s *stream) wait(extra uint64, count uint) {
	if s.tailN+count > 63 {
		s.raw(s.tail, s.tailN)
		s.tail, s.tailN = 0, 0
	}
	s.tail = s.tail<<count | extra
	s.tailN += count
}

func (s *stream) endRefineRun() {
	s.tokens[s.slot] = s.runToken()
	if s.tailN > 0 {
		s.raw(s.tail, s.tailN)
	}
	s.run, s.waiting, s.tail, s.tailN = 0, 0, 0, 0
}

// finish ends the run that is open after the last block.
func (s *stream) finish(refinement bool) {
	switch {
	case s.run == 0:
	case refinement:
		s.endRefineRun()
	default:
		s.endRun()
	}
}

// sixteenZeros returns the index after the 16th coefficient from next on that is
// not in old.
func sixteenZeros(old uint64, next, k uint) uint {
	zeros := (1<<k - 1) &^ (1<<next - 1) &^ old
	for range 15 {
		zeros &= zeros - 1
	}
	return uint(bits.TrailingZeros64(zeros)) + 1
}

// mcuBlock is one block of an interleaved MCU.
type mcuBlock struct {
	component *Component
	index     int // of the component
	x, y      int // in the MCU
}

// eachDC calls f with the DC coefficients of all blocks in the order of a scan of
// all components: interleaved MCUs if there are several, else row by row. Dummy
// blocks, which complete the MCUs at the right and bottom edges, repeat the block
// before them in the MCU, as in libjpeg: whatever the original encoder put there
// is dropped.
func (e *encoder) eachDC(f func(component int, dc int32)) {
	c := e.c
	if len(c.Components) == 1 {
		p := &c.Components[0]
		for y := range p.High {
			row := p.Blocks[y*p.Stride:][:p.Wide]
			for x := range row {
				f(0, int32(row[x][0]))
			}
		}
		return
	}
	e.mcu = e.mcu[:0]
	for i := range c.Components {
		p := &c.Components[i]
		for y := range p.V {
			for x := range p.H {
				e.mcu = append(e.mcu, mcuBlock{p, i, x, y})
			}
		}
	}
	wide, high := c.mcus()
	for my := range high {
		for mx := range wide {
			dc := int32(0)
			for i := range e.mcu {
				b := &e.mcu[i]
				p := b.component
				x, y := mx*p.H+b.x, my*p.V+b.y
				if x < p.Wide && y < p.High {
					dc = int32(p.Blocks[y*p.Stride+x][0])
				}
				f(b.index, dc)
			}
		}
	}
}

// dcBlocks is the number of blocks that eachDC visits.
func (e *encoder) dcBlocks() int {
	if p := &e.c.Components[0]; len(e.c.Components) == 1 {
		return p.Wide * p.High
	}
	n := 0
	for i := range e.c.Components {
		n += e.c.Components[i].H * e.c.Components[i].V
	}
	wide, high := e.c.mcus()
	return n * wide * high
}

// tokenizeDC leaves the tokens of the first DC scan, down to bit al: T.81
// G.1.2.1. It returns false where a coefficient is out of range.
func (e *encoder) tokenizeDC(al int) bool {
	n := e.dcBlocks()
	if cap(e.dcTokens) < n {
		e.dcTokens = make([]token, 0, n+n/4)
	}
	tokens := e.dcTokens[:0]
	clear(e.dcFreq[0][:])
	clear(e.dcFreq[1][:])
	ok := true
	var pred [maxComponents]int32
	e.eachDC(func(component int, dc int32) {
		v := dc >> (al & 31)
		diff := v - pred[component]
		pred[component] = v
		size := bitLen(diff)
		if size > 11 {
			ok = false
			return
		}
		extra := uint32(diff+diff>>31) & (1<<size - 1)
		table := uint32(e.c.table(component))
		e.dcFreq[table][size]++
		symbol := table*dcTable1 + uint32(size)
		tokens = append(tokens, symbol<<tokenSymbol|uint32(size)<<tokenCount|extra)
	})
	e.dcTokens = tokens
	return ok
}

// refineDC writes the data of the DC refinement scan.
func (e *encoder) refineDC() {
	e.reserve(e.dcBlocks()/4 + 32)
	acc, n := uint64(0), 0
	e.eachDC(func(_ int, dc int32) {
		acc = acc<<1 | uint64(dc&1)
		if n++; n == 32 {
			e.put(acc&0xFFFFFFFF, 32)
			n = 0
		}
	})
	if n > 0 {
		e.put(acc&(1<<n-1), n)
	}
}

// maxMagnitude is the largest that an AC coefficient of a first scan, shifted to
// its lowest bit, can have: 10 bits, T.81 table F.2.
const maxMagnitude = 1<<10 - 1

// tokenizeAC leaves the tokens of all AC scans of a component. It returns false
// where a coefficient is out of range.
func tokenizeAC(p *Component, lines []scan, s []*stream) bool {
	switch {
	case slices.Equal(lines, lumaScans):
		return tokenizeLuma(p, s) <= maxMagnitude<<2|3
	case slices.Equal(lines, chromaScans):
		return tokenizeChroma(p, s) <= maxMagnitude<<1|1
	}
	for i, line := range lines {
		if !tokenizeBand(p, line, s[i], 0, p.Wide*p.High) {
			return false
		}
		s[i].finish(line.ah > 0)
	}
	return true
}

// The AC scans of a component in the default script: see defaultScript.
var (
	lumaScans   = []scan{{0, 1, 5, 0, 2}, {0, 6, 63, 0, 2}, {0, 1, 63, 2, 1}, {0, 1, 63, 1, 0}}
	chromaScans = []scan{{0, 1, 63, 0, 1}, {0, 1, 63, 1, 0}}
)

// tokenizeBand leaves the tokens of any AC scan for n blocks from number first
// on, in the order of a scan of one component. It returns false where a
// coefficient is out of range.
func tokenizeBand(p *Component, line scan, s *stream, first, n int) bool {
	band := uint64(1)<<line.se<<1 - 1<<line.ss
	al := uint(line.al) & 15
	ss, se := uint(line.ss), uint(line.se)
	for n > 0 {
		row, x := first/p.Wide, first%p.Wide
		now := min(n, p.Wide-x)
		s.reserve(now)
		for at := row*p.Stride + x; at < row*p.Stride+x+now; at++ {
			b := &p.Blocks[at]
			// Coefficients that the scan delivers a bit of, those that were not zero
			// before it, and the bits of these.
			var fresh, old, corrections uint64
			for m := p.Nonzero[at] & band; m != 0; m &= m - 1 {
				k := bits.TrailingZeros64(m) & 63
				c := int32(b[k])
				sign := c >> 31
				a := uint32((c^sign)-sign) >> al
				switch {
				case line.ah > 0 && a > 1:
					old |= 1 << k
					corrections = corrections<<1 | uint64(a&1)
				case line.ah > 0 && a == 1 || line.ah == 0 && a > 0:
					fresh |= 1 << k
					if a > maxMagnitude {
						return false
					}
				}
			}
			if line.ah > 0 {
				s.refine(b, fresh, old, corrections, ss, se)
			} else {
				s.first(b, fresh, ss, se, al)
			}
		}
		first += now
		n -= now
	}
	return true
}

// tokenizeLuma leaves the tokens of the four AC scans of a component: bands 1–5
// and 6–63 down to bit 2, then bits 1 and 0 of all coefficients. It returns the
// binary or of all magnitudes.
func tokenizeLuma(p *Component, s []*stream) (largest uint32) {
	low, high, bit1, bit0 := s[0], s[1], s[2], s[3]
	for y := range p.High {
		for _, t := range s {
			t.reserve(p.Wide)
		}
		blocks := p.Blocks[y*p.Stride:][:p.Wide]
		masks := p.Nonzero[y*p.Stride:][:p.Wide]
		for x := range blocks {
			b := &blocks[x]
			// Coefficients of a magnitude of at least 1, 2 and 4, and the
			// correction bits for those that a scan finds to be nonzero already.
			var (
				from1      = masks[x] &^ 1
				from2      uint64
				from4      uint64
				fix0, fix1 uint64
			)
			for m := from1; m != 0; m &= m - 1 {
				k := bits.TrailingZeros64(m) & 63
				c := int32(b[k])
				sign := c >> 31
				a := uint64(uint32((c ^ sign) - sign))
				largest |= uint32(a)
				// 1 where the magnitude reaches 2 or 4.
				is2 := (1 - a) >> 63
				is4 := (3 - a) >> 63
				from2 |= is2 << k
				from4 |= is4 << k
				fix0 = fix0<<is2 | a&is2
				fix1 = fix1<<is4 | a>>1&is4
			}
			low.first(b, from4&0x3E, 1, 5, 2)
			high.first(b, from4&^0x3F, 6, 63, 2)
			bit1.refine(b, from2&^from4, from4, fix1, 1, 63)
			bit0.refine(b, from1&^from2, from2, fix0, 1, 63)
		}
	}
	low.finish(false)
	high.finish(false)
	bit1.finish(true)
	bit0.finish(true)
	return largest
}

// tokenizeChroma does the same for the two AC scans that chroma has: all
// coefficients down to bit 1, then bit 0.
func tokenizeChroma(p *Component, s []*stream) (largest uint32) {
	all, bit0 := s[0], s[1]
	for y := range p.High {
		for _, t := range s {
			t.reserve(p.Wide)
		}
		blocks := p.Blocks[y*p.Stride:][:p.Wide]
		masks := p.Nonzero[y*p.Stride:][:p.Wide]
		for x := range blocks {
			b := &blocks[x]
			from1 := masks[x] &^ 1
			var from2, fix0 uint64
			for m := from1; m != 0; m &= m - 1 {
				k := bits.TrailingZeros64(m) & 63
				c := int32(b[k])
				sign := c >> 31
				a := uint64(uint32((c ^ sign) - sign))
				largest |= uint32(a)
				is2 := (1 - a) >> 63
				from2 |= is2 << k
				fix0 = fix0<<is2 | a&is2
			}
			all.first(b, from2, 1, 63, 1)
			bit0.refine(b, from1&^from2, from2, fix0, 1, 63)
		}
	}
	all.finish(false)
	bit0.finish(true)
	return largest
}
