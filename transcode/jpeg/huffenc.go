package jpeg

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
