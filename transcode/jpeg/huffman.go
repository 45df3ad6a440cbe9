package jpeg

import (
	"math/bits"

	"github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"
)

// huffSpec is a Huffman table as a DHT segment defines it: T.81 B.2.4.2.
type huffSpec struct {
	counts [17]uint8 // codes of each length, 1 to 16
	values [256]byte // in the order of their codes
	n      int       // number of values
	set    bool
}

const lookBits = kernel.LookBits

// huffTable is a Huffman table made ready for decoding.
//
// For AC coefficients, fast is a kernel.Table. For DC coefficients an entry has in its
// second byte and the high 16 bits
//
//   - where code and extra bits are both within lookBits: 255, and the difference;
//   - otherwise: the symbol, at most 15, and 0. Only the code is consumed.
type huffTable struct {
	fast kernel.Table
	// limit is, for each length, the first 16 bits that are beyond all codes of
	// this and shorter lengths.
	limit  [17]uint32
	offset [17]int32 // of a length's codes in values
	kind   tableKind
	spec   huffSpec // what the table was built from
	// lengths is made by skipping, which not every picture needs.
	lengths *kernel.Lengths
	known   bool // lengths is that of spec
}

type tableKind uint8

const (
	tableNone tableKind = iota
	tableDC
	tableAC
)

// build makes t decode spec, unless it does so already, which is common: most
// files use the tables of T.81 annex K. It reports whether spec is valid.
func (t *huffTable) build(kind tableKind, spec *huffSpec) bool {
	if t.kind == kind && t.spec == *spec {
		return true
	}
	t.kind, t.known = tableNone, false
	clear(t.fast[:])
	code, k := uint32(0), 0
	for l := 1; l <= 16; l++ {
		n := int(spec.counts[l])
		t.offset[l] = int32(k) - int32(code)
		// The code of all ones is reserved: T.81 C, and libjpeg insists on it.
		if n > 0 && code+uint32(n) >= 1<<l {
			return false
		}
		for ; n > 0; n-- {
			if kind == tableDC && spec.values[k] > 15 {
				return false
			}
			if l <= lookBits {
				t.fill(kind, code, l, spec.values[k])
			}
			code++
			k++
		}
		t.limit[l] = code << (16 - l)
		code <<= 1
	}
	t.spec, t.kind = *spec, kind
	return true
}

// fill sets all entries of fast whose index starts with the given code.
func (t *huffTable) fill(kind tableKind, code uint32, length int, symbol byte) {
	free := lookBits - length
	entries := t.fast[code<<free : (code+1)<<free]
	size := int(symbol & 15)
	second := uint32(symbol>>4+1) << 8
	if kind == tableDC {
		second = 255 << 8
	}
	if size > free || size == 0 && kind == tableAC {
		e := uint32(length) | uint32(symbol)<<8
		for i := range entries {
			entries[i] = e
		}
		return
	}
	free -= size
	e := uint32(length+size) | second
	for extra := range 1 << size {
		e := e | uint32(uint16(kernel.Extend(uint32(extra), uint(size))))<<16
		part := entries[extra<<free : (extra+1)<<free]
		for i := range part {
			part[i] = e
		}
	}
}

// skipping returns the table that passes by the coefficients of spec.
func (t *huffTable) skipping() *kernel.Lengths {
	if t.known {
		return t.lengths
	}
	if t.lengths == nil {
		t.lengths = new(kernel.Lengths)
	}
	// Level w, behind 1<<w others, is such a table that looks up w bits only. The symbols
	// that follow a first one are those of a level below.
	var levels [1 << lookBits]uint16
	level := func(w int) []uint16 {
		if w == lookBits {
			return t.lengths[:]
		}
		return levels[1<<w : 2<<w]
	}
	for w := 1; w <= lookBits; w++ {
		entries := level(w)
		clear(entries)
		code, k := 0, 0
		for l := 1; l <= w; l++ {
			for range t.spec.counts[l] {
				part := entries[code<<(w-l) : (code+1)<<(w-l)]
				code++
				symbol := t.spec.values[k]
				k++
				size := int(symbol & 15)
				e := uint16(l + size)
				switch {
				case symbol == 0:
					e |= kernel.LengthsEnd
				case size == 0 && symbol != 0xF0:
					continue // no block has it
				default:
					e += uint16(symbol>>4+1) << 8
				}
				if symbol == 0 || l+size >= w {
					for i := range part {
						part[i] = e
					}
					continue
				}
				next := level(w - l - size)
				for ; len(part) > 0; part = part[len(next):] {
					for i, tail := range next {
						part[i] = e + tail
					}
				}
			}
			code <<= 1
		}
	}
	t.known = true
	return t.lengths
}

// slow decodes a code that fast does not know. It returns length 0 where no code
// matches.
func (t *huffTable) slow(next uint64) (symbol byte, length uint) {
	c := uint32(next >> 48)
	for l := lookBits + 1; l <= 16; l++ {
		if c < t.limit[l] {
			return t.spec.values[uint8(int32(c>>(16-l))+t.offset[l])], uint(l)
		}
	}
	return 0, 0
}

// annexK returns the tables of T.81 K.3, in the order DC 0, DC 1, AC 0, AC 1.
// Files without tables, such as frames of Motion JPEG, mean these.
func annexK() (dc, ac [2]huffSpec) {
	dc[0].counts = [17]uint8{2: 1, 3: 5, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1}
	dc[1].counts = [17]uint8{2: 3, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1, 11: 1}
	for i := range dc {
		for v := range 12 {
			dc[i].values[v] = byte(v)
		}
		dc[i].n, dc[i].set = 12, true
	}
	ac[0].counts = [17]uint8{0, 0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125}
	ac[1].counts = [17]uint8{0, 0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119}
	// Only the values with short codes have an order of their own.
	short := [2]string{
		"\x01\x02\x03\x00\x04\x11\x05\x12\x21\x31\x41\x06\x13\x51\x61\x07" +
			"\x22\x71\x14\x32\x81\x91\xa1\x08\x23\x42\xb1\xc1\x15\x52\xd1\xf0" +
			"\x24\x33\x62\x72\x82",
		"\x00\x01\x02\x03\x11\x04\x05\x21\x31\x06\x12\x41\x51\x07\x61\x71" +
			"\x13\x22\x32\x81\x08\x14\x42\x91\xa1\xb1\xc1\x09\x23\x33\x52\xf0" +
			"\x15\x62\x72\xd1\x0a\x16\x24\x34\xe1\x25\xf1",
	}
	for i := range ac {
		var have [256]bool
		n := copy(ac[i].values[:], short[i])
		for _, v := range ac[i].values[:n] {
			have[v] = true
		}
		for v := range 256 {
			if size := v & 15; size >= 1 && size <= 10 && !have[v] {
				ac[i].values[n] = byte(v)
				n++
			}
		}
		ac[i].n, ac[i].set = n, true
	}
	return dc, ac
}

// parseDHT reads the payload of a DHT segment into dc and ac.
func parseDHT(p []byte, at int, dc, ac *[4]huffSpec) error {
	for len(p) > 0 {
		if len(p) < 17 {
			return bad(at, "DHT: %d bytes left over", len(p))
		}
		class, id := p[0]>>4, p[0]&15
		if class > 1 || id > 3 {
			return bad(at, "DHT: table %02X", p[0])
		}
		s := huffSpec{set: true}
		copy(s.counts[1:], p[1:17])
		for _, n := range s.counts {
			s.n += int(n)
		}
		p = p[17:]
		if s.n > 256 || s.n > len(p) {
			return bad(at, "DHT: %d values", s.n)
		}
		copy(s.values[:], p[:s.n])
		p = p[s.n:]
		if class == 0 {
			dc[id] = s
		} else {
			ac[id] = s
		}
	}
	return nil
}

// bitLen is the number of bits of the magnitude of v, its size category: T.81
// table F.1.
func bitLen(v int32) uint {
	s := v >> 31
	return uint(bits.Len32(uint32((v ^ s) - s)))
}

// histogram counts how often each symbol occurs.
type histogram [256]uint32

// huffCodes is a Huffman table made for a histogram, as a DHT segment holds it.
type huffCodes struct {
	counts [17]uint8
	values []byte // shares storage with the treeBuilder that made it
}

// treeBuilder is the working memory for making optimal Huffman tables.
type treeBuilder struct {
	heap   []uint64 // frequency, then what breaks ties, then the node
	parent [2 * 257]uint16
	depth  [2 * 257]uint16
	leaf   [257]uint16 // symbol of each leaf
	values [256]byte
}

// build makes the optimal table for h as T.81 K.2 describes it. Where that leaves
// a choice the result is the one libjpeg makes: of two equal frequencies the one
// with the larger symbol counts as the smaller, a merged node is known by the
// symbol of its first, smaller part, and one code point is reserved by a symbol
// 256 of frequency 1, so that no code is all ones.
func (t *treeBuilder) build(h *histogram) huffCodes {
	const (
		reserved  = 256
		nodeBits  = 10
		tieBits   = 9
		tieMask   = 1<<tieBits - 1
		freqShift = nodeBits + tieBits
	)
	t.heap = t.heap[:0]
	leaves := uint16(0)
	add := func(symbol int, freq uint64) {
		t.leaf[leaves] = uint16(symbol)
		t.heap = append(t.heap, freq<<freqShift|uint64(tieMask-symbol)<<nodeBits|uint64(leaves))
		leaves++
	}
	for symbol, freq := range h {
		if freq > 0 {
			add(symbol, uint64(freq))
		}
	}
	add(reserved, 1)
	for i := len(t.heap)/2 - 1; i >= 0; i-- {
		t.down(i)
	}
	nodes := leaves
	for len(t.heap) > 1 {
		first := t.pop()
		second := t.heap[0]
		t.parent[first&(1<<nodeBits-1)] = nodes
		t.parent[second&(1<<nodeBits-1)] = nodes
		freq := first>>freqShift + second>>freqShift
		t.heap[0] = freq<<freqShift | first&(tieMask<<nodeBits) | uint64(nodes)
		t.down(0)
		nodes++
	}
	// Parents come after their children.
	var lengths [258]uint16 // number of codes of each length
	t.depth[nodes-1] = 0
	for i := int(nodes) - 2; i >= 0; i-- {
		t.depth[i] = t.depth[t.parent[i]] + 1
		if i < int(leaves) {
			lengths[t.depth[i]]++
		}
	}
	limitLengths(&lengths)

	c := huffCodes{values: t.values[:0]}
	longest := 16
	for lengths[longest] == 0 {
		longest--
	}
	lengths[longest]-- // the reserved symbol has one of the longest codes
	for l := 1; l <= 16; l++ {
		c.counts[l] = uint8(lengths[l])
	}
	// Symbols go by the length they had before it was limited, then by value;
	// the leaves are in the order of their symbols. Counting sort.
	var at [258]uint16
	for _, d := range t.depth[:leaves-1] {
		at[d+1]++
	}
	for d := 1; d < len(at); d++ {
		at[d] += at[d-1]
	}
	c.values = t.values[:leaves-1]
	for i, d := range t.depth[:leaves-1] {
		c.values[at[d]] = byte(t.leaf[i])
		at[d]++
	}
	return c
}

// limitLengths changes the numbers of codes of each length so that none is
// longer than 16: T.81 figure K.3.
func limitLengths(n *[258]uint16) {
	for i := len(n) - 1; i > 16; i-- {
		for n[i] > 0 {
			j := i - 2
			for n[j] == 0 {
				j--
			}
			n[i] -= 2
			n[i-1]++
			n[j+1] += 2
			n[j]--
		}
	}
}

// pop removes and returns the smallest element of the heap.
func (t *treeBuilder) pop() uint64 {
	smallest := t.heap[0]
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap = t.heap[:last]
	t.down(0)
	return smallest
}

// down moves element i of the heap to where it belongs.
func (t *treeBuilder) down(i int) {
	h := t.heap
	if i >= len(h) {
		return
	}
	v := h[i]
	for {
		j := 2*i + 1
		if j >= len(h) {
			break
		}
		if j+1 < len(h) && h[j+1] < h[j] {
			j++
		}
		if v <= h[j] {
			break
		}
		h[i] = h[j]
		i = j
	}
	h[i] = v
}

// fill sets the codes of all symbols in out: the code above the low byte, its
// length in it.
func (c *huffCodes) fill(out []uint32) {
	code, k := uint32(0), 0
	for l := 1; l <= 16; l++ {
		for range c.counts[l] {
			out[c.values[k]] = code<<8 | uint32(l)
			code++
			k++
		}
		code <<= 1
	}
}
