package jpeg

import (
	"bytes"
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"
)

// entropyPad is the number of bytes that are readable after the last interval
// of a scan. It is more than a block can take, however broken: 64 codes of 16
// bits with 15 extra bits and 63 correction bits, and one refill. So the readers
// need to look out for the end only once a block.
const entropyPad = 320

// interval is the entropy-coded data between two restart markers, without
// stuffing: it ends at byte end of the buffer, and starts where the one before
// it ends.
type interval struct {
	end int
	rst byte // the marker after it
}

// unstuff copies the entropy-coded data of a scan that starts at pos to d.bits,
// without the zero bytes stuffed after FF and without the markers between
// intervals (T.81 B.1.1.5), which makes reading bits later on very cheap. It
// returns the offset of the marker that ends the scan. Where there are more
// intervals than the scan can have, the rest counts as one.
func (d *decoder) unstuff(pos, intervals int) (end int, err error) {
	src := d.src
	need := len(src) - pos + entropyPad
	if cap(d.bits) < need {
		d.bits = make([]byte, 0, need+need/4)
	}
	out := d.bits[:0]
	d.intervals = d.intervals[:0]
	for {
		i := bytes.IndexByte(src[pos:], 0xFF)
		if i < 0 {
			return 0, truncated(len(src), "no marker after the data of scan %d", d.c.Scans)
		}
		out = append(out, src[pos:pos+i]...)
		at := pos + i
		for pos = at + 1; pos < len(src) && src[pos] == 0xFF; pos++ {
		}
		if pos == len(src) {
			return 0, truncated(len(src), "no marker after the data of scan %d", d.c.Scans)
		}
		m := src[pos]
		pos++
		switch {
		case m == 0:
			if pos-at > 2 {
				// FF FF 00 is no fill byte and no stuffing. libjpeg-turbo takes
				// the second FF for a marker in one place and for data in
				// another, and leaves rubbish in the block.
				return 0, bad(at, "FF FF 00 in the data of scan %d", d.c.Scans)
			}
			out = append(out, 0xFF)
		case isRST(m):
			if len(d.intervals) < intervals {
				d.intervals = append(d.intervals, interval{len(out), m})
			}
		default:
			d.intervals = append(d.intervals, interval{len(out), m})
			d.bits = out[:len(out)+entropyPad]
			clear(d.bits[len(out):])
			return at, nil
		}
	}
}

// bitReader reads bits from data without stuffing. The functions that decode
// blocks copy it to local variables, since the compiler keeps those in registers.
type bitReader struct {
	kernel.Cursor
	data []byte // with entropyPad bytes after the interval
}

// refilled returns acc, n and pos with at least 56 bits in acc.
func refilled(data []byte, pos int, acc uint64, n uint) (uint64, uint, int) {
	acc |= binary.BigEndian.Uint64(data[pos:]) >> (n & 63)
	return acc, n | 56, pos + int((63-n)>>3)
}

func (r *bitReader) reset(pos int) { r.Pos, r.Acc, r.N = pos, 0, 0 }

func (r *bitReader) fill() {
	if r.N < 32 {
		r.Acc, r.N, r.Pos = refilled(r.data, r.Pos, r.Acc, r.N)
	}
}

// take returns the next n bits, at most 16; fill has to come before it.
func (r *bitReader) take(n uint) uint32 {
	v := uint32(r.Acc >> 32 >> (32 - n&63))
	r.Acc <<= n & 63
	r.N -= n
	return v
}

// symbol decodes one symbol with a plain table; fill has to come before it. It
// takes at most 16 bits. A result of 256 means that the code is invalid.
func (r *bitReader) symbol(t *huffTable) uint32 {
	e := t.fast[r.Acc>>(64-lookBits)]
	if l := uint(e & 63); l != 0 {
		r.Acc <<= l
		r.N -= l
		return e >> 8 & 255
	}
	s, l := t.slow(r.Acc)
	if l == 0 {
		return 256
	}
	r.Acc <<= l & 63
	r.N -= l
	return uint32(s)
}

// over reports whether more bits were read than there are before byte end.
func (r *bitReader) over(end int) bool { return r.Pos*8-int(r.N) > end*8 }

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
