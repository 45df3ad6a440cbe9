package jpeg

import "math/bits"

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
