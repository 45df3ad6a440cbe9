package bmp

import "encoding/binary"

// Masks of every third byte of a word, from byte 0, 1 or 2 on.
const (
	from0 = 0x00ff_0000_ff00_00ff
	from1 = 0xff00_00ff_0000_ff00
	from2 = 0x0000_ff00_00ff_0000
)

// swapRB copies pixels of three bytes from src to dst, the first and the third
// byte of each exchanged: RGB to BGR and back. dst has the length of src.
//
// This is on the way of every read of a BMP view, so it works on words. Eight
// pixels are three words; a byte of a word stays, or moves two places up or
// down, and the four bytes that cross into a neighbour are fetched from it.
func swapRB(dst, src []byte) {
	le := binary.LittleEndian
	for len(src) >= 24 && len(dst) >= 24 {
		s, d := src[:24:24], dst[:24:24]
		a, b, c := le.Uint64(s[0:]), le.Uint64(s[8:]), le.Uint64(s[16:])
		le.PutUint64(d[0:], a>>16&(from0&0xffff_ffff)|a&from1|a<<16&from2|b<<48&(0xff<<48))
		le.PutUint64(d[8:], b>>16&(from1&0xff_ffff_ffff)|b&from2|b<<16&(from0&^0xff)|a>>48&0xff|c<<48&(0xff<<56))
		le.PutUint64(d[16:], c>>16&from2|c&from0|c<<16&(from1&^0xffff)|b>>48&0xff00)
		src, dst = src[24:], dst[24:]
	}
	for len(src) >= 3 && len(dst) >= 3 {
		dst[0], dst[1], dst[2] = src[2], src[1], src[0]
		src, dst = src[3:], dst[3:]
	}
}

// swapRB4 is swapRB for pixels of four bytes, of which the last stays.
func swapRB4(dst, src []byte) {
	le := binary.LittleEndian
	for len(src) >= 8 && len(dst) >= 8 {
		a := le.Uint64(src)
		le.PutUint64(dst, a>>16&0x0000_00ff_0000_00ff|a&0xff00_ff00_ff00_ff00|a<<16&0x00ff_0000_00ff_0000)
		src, dst = src[8:], dst[8:]
	}
	if len(src) >= 4 && len(dst) >= 4 {
		dst[0], dst[1], dst[2], dst[3] = src[2], src[1], src[0], src[3]
	}
}

// packBits packs a byte a pixel, 0 or 1, into bits, the most significant first.
func packBits(dst, src []byte) {
	for len(src) >= 8 {
		// The product gathers the lowest bits of eight bytes in the highest byte.
		dst[0] = byte(binary.BigEndian.Uint64(src) & 0x0101_0101_0101_0101 * 0x0102_0408_1020_4080 >> 56)
		src, dst = src[8:], dst[1:]
	}
	if len(src) > 0 {
		var last byte
		for i, v := range src {
			last |= v & 1 << (7 - i)
		}
		dst[0] = last
	}
}

// unpack spreads pixels of the given number of bits, 1 or 4, over bytes.
func unpack(dst, src []byte, bits int) {
	if bits == 1 {
		for i := range dst {
			dst[i] = src[i>>3] >> (7 - i&7) & 1
		}
		return
	}
	for i := range dst {
		dst[i] = src[i>>1] >> (4 - i&1*4) & 15
	}
}
