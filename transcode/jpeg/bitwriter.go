package jpeg

import "encoding/binary"

// bitWriter writes entropy-coded data to buf, stuffing included.
type bitWriter struct {
	buf  []byte // all of it is writable
	pos  int
	acc  uint64 // bits not written yet, from the top
	free int    // how many more fit into acc
}

// reserve makes sure that n more bytes can be written.
func (w *bitWriter) reserve(n int) {
	if len(w.buf)-w.pos < n {
		grown := make([]byte, 2*len(w.buf)+n)
		copy(grown, w.buf[:w.pos])
		w.buf = grown
	}
}

// bytes writes whole bytes; the bits before them must have been flushed.
func (w *bitWriter) bytes(p ...byte) {
	w.reserve(len(p))
	w.pos += copy(w.buf[w.pos:], p)
}

// store writes 8 bytes, and a zero byte after each FF, to buf at pos. It returns
// the position behind them; 16 bytes must be free.
func store(buf []byte, pos int, acc uint64) int {
	// Is any byte FF? Then the same byte of its complement is zero.
	inv := ^acc
	if (inv-0x0101010101010101)&acc&0x8080808080808080 == 0 {
		binary.BigEndian.PutUint64(buf[pos:], acc)
		return pos + 8
	}
	for shift := 56; shift >= 0; shift -= 8 {
		b := byte(acc >> shift)
		buf[pos] = b
		pos++
		if b == 0xFF {
			buf[pos] = 0
			pos++
		}
	}
	return pos
}

// tokens writes tokens with the given codes, which are as huffCodes.fill makes
// them.
func (w *bitWriter) tokens(tokens []token, codes *[512]uint32) {
	const chunk = 1024
	for len(tokens) > 0 {
		part := tokens[:min(chunk, len(tokens))]
		tokens = tokens[len(part):]
		// A token takes at most 4 bytes, twice that if all of them are FF.
		w.reserve(len(part)*8 + 32)
		buf, pos, acc, free := w.buf, w.pos, w.acc, w.free
		for _, t := range part {
			code := codes[t>>tokenSymbol&511]
			count := t >> tokenCount & 31
			v := uint64(code>>8)<<count | uint64(t&0xFFFF)
			free -= int(code&31 + count)
			if free >= 0 {
				acc |= v << (free & 63)
				continue
			}
			pos = store(buf, pos, acc|v>>(-free&63))
			free += 64
			acc = v << (free & 63)
		}
		w.pos, w.acc, w.free = pos, acc, free
	}
}

// put writes the low n bits of v, 1 to 32; 16 bytes must be free.
func (w *bitWriter) put(v uint64, n int) {
	w.free -= n
	if w.free >= 0 {
		w.acc |= v << w.free
		return
	}
	w.pos = store(w.buf, w.pos, w.acc|v>>-w.free)
	w.free += 64
	w.acc = v << w.free
}

// padding is what T.81 F.1.2.3 wants the last byte to be filled up with: ones.
const padding = 0xFF

// flush writes what is left, filled up to a whole byte with the low bits of pad.
func (w *bitWriter) flush(pad byte) {
	w.reserve(32)
	if n := w.free & 7; n > 0 {
		w.put(uint64(pad)&(1<<n-1), n)
	}
	for ; w.free < 64; w.free += 8 {
		b := byte(w.acc >> 56)
		w.acc <<= 8
		w.buf[w.pos] = b
		w.pos++
		if b == 0xFF {
			w.buf[w.pos] = 0
			w.pos++
		}
	}
	w.acc, w.free = 0, 64
}
