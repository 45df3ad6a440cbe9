package transcode

import "encoding/binary"

// Masks of every third byte of a word, from byte 0, 1 or 2 on.
const (
	from0 = 0x00ff_0000_ff00_00ff
	from1 = 0xff00_00ff_0000_ff00
	from2 = 0x0000_ff00_00ff_0000
)

// SwapRedBlue copies pixels of three bytes from src to dst, the first and the third
// byte of each exchanged: RGB to BGR, as bitmaps have them, and back. dst has the length of src, and may be src.
//
// This is on the way of every read of a BMP view, so it works on words. Eight
// pixels are three words; a byte of a word stays, or moves two places up or
// down, and the four bytes that cross into a neighbour are fetched from it.
func SwapRedBlue(dst, src []byte) {
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
