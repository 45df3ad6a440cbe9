package parquet

import "encoding/binary"

// deltas reads n numbers that are encoded as deltas, and returns what stands behind them.
func deltas(b []byte, n int) ([]int64, []byte, error) {
	number := func() uint64 {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			b = nil
			return 0
		}
		b = b[k:]
		return v
	}
	signed := func() int64 {
		v := number()
		return int64(v>>1) ^ -int64(v&1)
	}
	block, parts, total, last := number(), number(), number(), signed()
	if total != uint64(n) || parts == 0 || block > 1<<16 || block%parts != 0 || block/parts%8 != 0 || block == 0 {
		return nil, nil, errPage
	}
	each := int(block / parts)
	if n > 1 && (n-1)/int(block) > len(b)/2 { // each block has a byte of a number and a width at least
		return nil, nil, errPage
	}
	all := make([]int64, 0, n)
	if n > 0 {
		all = append(all, last)
	}
	for len(all) < n {
		least := signed()
		if uint64(len(b)) < parts {
			return nil, nil, errPage
		}
		widths := b[:parts]
		b = b[parts:]
		for _, width := range widths {
			if len(all) == n {
				break
			}
			size := int(width) * each / 8
			if width > 64 || size > len(b) {
				return nil, nil, errPage
			}
			for i := range min(each, n-len(all)) {
				last += least + int64(bitsAt(b, i*int(width), int(width)))
				all = append(all, last)
			}
			b = b[size:]
		}
	}
	return all, b, nil
}

// bitsAt reads a number of at most 64 bits.
func bitsAt(b []byte, at, width int) (v uint64) {
	for k := 0; k < width; {
		from := (at + k) % 8
		n := min(8-from, width-k)
		v |= uint64(b[(at+k)/8]>>from&(1<<n-1)) << k
		k += n
	}
	return v
}

// lengths finds n values whose lengths stand before all of them.
func lengths(data []byte, at, n int) ([]span, error) {
	sizes, rest, err := deltas(data[at:], n)
	if err != nil {
		return nil, err
	}
	all := make([]span, n)
	at = len(data) - len(rest)
	for i, size := range sizes {
		if size < 0 || size > int64(len(data)-at) {
			return nil, errPage
		}
		all[i] = span{at, int(size)}
		at += int(size)
	}
	return all, nil
}

// maxMade is the most bytes of values of a page that repeat those before them.
const maxMade = 64 << 20

// suffixes reads n values of which each begins as the one before it.
func suffixes(b []byte, n int) (*page, []span, error) {
	begins, rest, err := deltas(b, n)
	if err != nil {
		return nil, nil, err
	}
	ends, err := lengths(rest, 0, n)
	if err != nil {
		return nil, nil, err
	}
	p := &page{made: true}
	all := make([]span, n)
	var last span
	for i, begin := range begins {
		if begin < 0 || begin > int64(last.n) || begin+int64(ends[i].n) > maxMade-int64(len(p.data)) {
			return nil, nil, errPage
		}
		at := len(p.data)
		p.data = append(p.data, p.data[last.at:last.at+int(begin)]...)
		p.data = append(p.data, rest[ends[i].at:ends[i].at+ends[i].n]...)
		last = span{at, len(p.data) - at}
		all[i] = last
	}
	return p, all, nil
}
