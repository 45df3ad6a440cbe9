package bmp

import "encoding/binary"

// swapRB4 is [redblue.Swap] for pixels of four bytes, of which the last stays.
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
