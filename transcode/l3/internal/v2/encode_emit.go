package v2

import (
	"encoding/binary"
	"math/bits"

	"github.com/pipefs/pipefs/transcode"
)

// emitter writes blocks. Streams are gathered in memory of their own.
type emitter struct {
	memory []byte
	start  [streams]int    // of each stream in memory
	pos    [streams]uint64 // of its end, in bits from the beginning of memory
}

// What a block adds to a stream in bytes, at most. A plane has a bit for each of
// maxQuotients samples; escapes take 8-k bits of at most 29 samples: with more of them
// the block would be smaller raw.
const (
	planeMost  = maxQuotients / 8
	escapeMost = 32
)

// begin begins the streams of a patch of so many blocks.
func (e *emitter) begin(blocks int) {
	n := 0
	for i := range e.start {
		e.start[i], e.pos[i] = n, uint64(8*n)
		// Writes are of 8 bytes.
		n += planeMost*blocks + 8
	}
	n += (escapeMost - planeMost) * blocks
	if len(e.memory) < n {
		e.memory = make([]byte, n)
	}
	for _, at := range e.start {
		e.memory[at] = 0 // put adds to the byte that a stream ends in
	}
}

// stream returns a complete stream, padded with zeros.
func (e *emitter) stream(i int) []byte { return e.memory[e.start[i] : (e.pos[i]+7)/8] }

// put appends n bits, at most 57, to a stream.
func (e *emitter) put(stream int, v uint64, n int) {
	at, bit := e.memory[e.pos[stream]/8:], e.pos[stream]%8
	binary.LittleEndian.PutUint64(at, uint64(at[0])|v<<bit)
	e.pos[stream] += uint64(n)
}

// emit writes four blocks, and returns how many bytes their raw parts have; it may
// write 8 bytes more.
func (e *emitter) emit(dst []byte, at laneBlocks, codes uint16) int {
	if encodeAccelerated {
		return e.emitAVX2(dst, at, codes)
	}
	n := 0
	for b := range lanes / blockSteps {
		code := codes >> (4 * b) & 15
		words := at.load(b)
		transposeWords(&words)
		width := int(code)
		if code >= codeRice {
			width = int(code - codeRice)
			binary.LittleEndian.PutUint64(dst[n:], e.quotients(&words, width))
			n += 8
		}
		if width == 0 {
			continue
		}
		for _, v := range words {
			binary.LittleEndian.PutUint64(dst[n:], packBits(v, width))
			n += width
		}
	}
	return n
}

// emitAVX2 is emit.
func (e *emitter) emitAVX2(dst []byte, at laneBlocks, codes uint16) int {
	n := 8
	for b := range lanes / blockSteps {
		n += 8 * int(rawLen[codes>>(4*b)&15])
	}
	dst = dst[:n]
	var memory *byte
	if len(e.memory) > 0 {
		memory = &e.memory[0]
	}
	return emitAVX2(&dst[0], memory, &e.pos, &at.lanes[0], at.pitch, uint64(codes))
}

// quotients appends the quotients of a block to the streams and returns plane 1. Words
// are steps.
func (e *emitter) quotients(words *[blockSteps]uint64, k int) uint64 {
	first := planeOf(words, k, 1)
	above := first
	for i := 2; i <= planes && above != 0; i++ {
		p := planeOf(words, k, i)
		e.put(i-2, extract(p, above), bits.OnesCount64(above))
		above = p
	}
	for ; above != 0; above &= above - 1 {
		i := bits.TrailingZeros64(above)
		e.put(streams-1, words[i/8]>>(i%8*8)&0xff>>k, 8-k)
	}
	return first
}

// planeOf has a bit for each sample: whether its quotient is n or more.
func planeOf(words *[blockSteps]uint64, k, n int) uint64 {
	var p uint64
	for i, v := range words {
		// The highest bits of the bytes become neighbours.
		p |= atLeast(quotient(v, k), n) >> 7 * 0x0102040810204080 >> 56 << (8 * i)
	}
	return p
}

// extract moves the bits of v that mask has to the lower end.
func extract(v, mask uint64) (out uint64) {
	for n := 0; mask != 0; mask &= mask - 1 {
		out |= v >> bits.TrailingZeros64(mask) & 1 << n
		n++
	}
	return out
}

// packBits moves the lower bits of 8 bytes together: two bytes at a time, then four,
// then all.
func packBits(v uint64, width int) uint64 {
	v &= 0xff >> (8 - width) * ones
	gap := 8 - width
	v = v&0x00ff00ff00ff00ff | v&0xff00ff00ff00ff00>>gap
	v = v&0x0000ffff0000ffff | v&0xffff0000ffff0000>>(2*gap)
	return v&0x00000000ffffffff | v>>32<<(32-4*gap)
}

// transposeWords makes words of 8 steps of a lane words of 8 lanes of a step.
func transposeWords(words *[blockSteps]uint64) {
	for _, s := range []struct {
		n    int // bytes
		mask uint64
	}{{1, 0x00ff00ff00ff00ff}, {2, 0x0000ffff0000ffff}, {4, 0x00000000ffffffff}} {
		for i := range words {
			if i&s.n != 0 {
				continue
			}
			a, b := words[i], words[i|s.n]
			words[i] = a&s.mask | b&s.mask<<(8*s.n)
			words[i|s.n] = a>>(8*s.n)&s.mask | b&^s.mask
		}
	}
}

// laneBlocks are four blocks of 8 steps: those of all lanes. Step s of lane r is at
// r*pitch + s, so that 8 steps of a lane are one word.
type laneBlocks struct {
	lanes []byte
	pitch int
}

// load reads the block of lanes 8b to 8b+7: one word for each lane.
func (b laneBlocks) load(group int) (words [blockSteps]uint64) {
	at := b.lanes[blockSteps*group*b.pitch:]
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(at)
		if i+1 < len(words) {
			at = at[b.pitch:]
		}
	}
	return words
}

const (
	ones  = 0x0101010101010101
	low7  = 0x7f * ones
	high1 = 0x80 * ones
)

// cost chooses the codes of all blocks and adds up what they take.
func (w *Workspace) cost(c *candidate) {
	for _, p := range c.parts[:w.depth/8] {
		if encodeAccelerated {
			c.bits += w.costAVX2(p)
			continue
		}
		for g := range p.codes {
			p.codes[g] = 0
			at := w.blocks(p, g)
			for b := range lanes / blockSteps {
				words := at.load(b)
				code, bits := chooseCode(&words, w.rice)
				p.codes[g] |= uint16(code) << (4 * b)
				c.bits += bits
			}
		}
	}
}

// costAVX2 is the same for one part.
func (w *Workspace) costAVX2(p *coded) int {
	at := w.blocks(p, 0)
	if w.rice {
		return denseCostsAVX2(&p.codes[0], &at.lanes[0], at.pitch, w.groups)
	}
	return fastCostsAVX2(&p.codes[0], &at.lanes[0], at.pitch, w.groups)
}

// chooseCode returns the code of a block that takes the fewest bits: of equals the Rice
// code with the fewest raw bits, and raw samples last.
func chooseCode(words *[blockSteps]uint64, rice bool) (code, cost int) {
	var all uint64
	for _, v := range words {
		all |= v
	}
	all |= all >> 32
	all |= all >> 16
	all |= all >> 8
	code = bits.Len8(uint8(all))
	cost = 64 * code
	if !rice {
		return code, cost
	}
	// From the last one down, so that of equals the first one is kept.
	for k := codes - codeRice - 1; k >= 0; k-- {
		if n, quotients := riceCost(words, k); n <= cost && quotients <= maxQuotients {
			code, cost = codeRice+k, n
		}
	}
	return code, cost
}

// riceCost is what a Rice code of k raw bits takes, and how many samples have a
// quotient that is not 0. A quotient q takes q+1 bits, or all planes and 8-k bits.
func riceCost(words *[blockSteps]uint64, k int) (cost, quotients int) {
	var sum uint64 // of quotients that are no escapes, below 8 each
	cost = 64 * (k + 1)
	for _, v := range words {
		q := quotient(v, k)
		escapes := atLeast(q, planes)
		sum += q &^ (escapes >> 7 * 0xff)
		cost += bits.OnesCount64(escapes) * (planes - 1 + 8 - k)
		quotients += bits.OnesCount64(atLeast(q, 1))
	}
	sum = sum&0x00ff00ff00ff00ff + sum>>8&0x00ff00ff00ff00ff
	return cost + int(sum*0x0001000100010001>>48), quotients
}

// quotient shifts 8 bytes right.
func quotient(v uint64, k int) uint64 { return v >> k & (0xff >> k * ones) }

// atLeast has the highest bit of each byte that is n or more; n is 1 to 128.
func atLeast(v uint64, n int) uint64 {
	return (v&low7 + uint64(128-n)*ones | v) & high1
}

// The planes of a patch: its samples by channel, and what colour transforms make of
// red and blue. Grey is in the place of green.
const (
	planeG    = iota
	planeRG   // R-G
	planeBG   // B-G
	planeBAvg // B-avg(R,G)
	planeR
	planeB
	planeA
	planeCount
)

type sample interface{ uint8 | uint16 }

// A planeSet has a margin before each row for the samples to the left of it, and a margin after it for
// vectors that reach beyond it.
type planeSet[T sample] struct {
	width, pitch, size int
	samples            []T
}

const rowBefore = 64

func (p *planeSet[T]) prepare(width, height int) {
	p.width, p.pitch = width, rowBefore+(width+63)&^63
	p.size = p.pitch * height
	if len(p.samples) < planeCount*p.size {
		p.samples = make([]T, planeCount*p.size)
	}
}

// row is a row of a plane.
func (p *planeSet[T]) row(plane, y int) []T {
	return p.samples[plane*p.size+y*p.pitch+rowBefore:][:p.width]
}

// edges sets the sample to the left of each row to the one above the row's first sample,
// so that the first sample is predicted from the one above. MED's corner does not matter
// then.
func (p *planeSet[T]) edges(plane, height int) {
	at := plane*p.size + rowBefore
	p.samples[at-1] = ^T(0)>>1 + 1
	for range height - 1 {
		p.samples[at+p.pitch-1] = p.samples[at]
		at += p.pitch
	}
}

// gather copies the samples of a patch to planes and transforms colours.
func (w *Workspace) gather(src transcode.Target, channels int) {
	if w.depth == 16 {
		w.words.prepare(w.width, w.height)
	} else {
		w.bytes.prepare(w.width, w.height)
	}
	order := [4]int{planeR, planeG, planeB, planeA}
	if channels < 3 {
		order = [4]int{planeG, planeA}
	}
	for y := range w.height {
		if w.depth == 8 {
			w.gatherBytes(src, order[:channels], y)
			continue
		}
		for c, plane := range order[:channels] {
			at := src.At(0, y, c)
			row := w.words.row(plane, y)
			for x := range row {
				row[x] = binary.LittleEndian.Uint16(src.Pix[at:])
				at += src.Pixel
			}
		}
		if channels >= 3 {
			transformRow(&w.words, y)
		}
	}
}

// gatherBytes gathers a row whose channels belong into these planes.
func (w *Workspace) gatherBytes(src transcode.Target, order []int, y int) {
	if !deinterleave(&w.bytes, src, order, y) {
		for c, plane := range order {
			at := src.At(0, y, c)
			row := w.bytes.row(plane, y)
			if src.Pixel == 1 {
				copy(row, src.Pix[at:at+len(row)])
				continue
			}
			for x := range row {
				row[x] = src.Pix[at]
				at += src.Pixel
			}
		}
	}
	if len(order) < 3 {
		return
	}
	if encodeAccelerated {
		coloursAVX2(&w.bytes.row(planeG, y)[0], w.bytes.size, w.width)
	} else {
		transformRow(&w.bytes, y)
	}
}

// deinterleave splits a row of pixels of 3 or 4 samples, and returns false if it cannot.
func deinterleave(p *planeSet[uint8], src transcode.Target, order []int, y int) bool {
	const vector = 16 // pixels
	n := len(order)
	if !encodeAccelerated || n < 3 || p.width < vector || src.Pixel != n || src.Channel != 1 && src.Channel != -1 {
		return false
	}
	at, first, step := src.At(0, y, 0), 0, 1
	if src.Channel < 0 {
		at, first, step = at-(n-1), n-1, -1
	}
	pixels := src.Pix[at : at+n*p.width]
	var to [4]*byte
	for i := range n {
		to[i] = &p.row(order[first+i*step], y)[0]
	}
	if n == 3 {
		deinterleave3AVX2(to[0], to[1], to[2], &pixels[0], p.width)
	} else {
		deinterleave4AVX2(to[0], to[1], to[2], to[3], &pixels[0], p.width)
	}
	return true
}

// transformRow computes the differences of colours.
func transformRow[T sample](p *planeSet[T], y int) {
	red, green, blue := p.row(planeR, y), p.row(planeG, y), p.row(planeB, y)
	rg, bg, bavg := p.row(planeRG, y), p.row(planeBG, y), p.row(planeBAvg, y)
	middle := ^T(0)>>1 + 1
	for x, g := range green {
		r, b := red[x], blue[x]
		rg[x] = r - g + middle
		bg[x] = b - g + middle
		bavg[x] = b - average(r, g) + middle
	}
}

func average[T sample](a, b T) T { return T((uint32(a) + uint32(b) + 1) / 2) }
