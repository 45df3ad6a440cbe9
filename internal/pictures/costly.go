package pictures

import "bytes"

// Costly is a JPEG, grey and 8 by 8 pixels, that is valid and asks for more work
// than its size tells: 190 scans, each of which passes over the whole picture,
// and so many comments.
func Costly(comments int) []byte {
	var b bytes.Buffer
	segment := func(marker byte, payload ...byte) {
		b.Write([]byte{0xff, marker, 0, byte(len(payload) + 2)})
		b.Write(payload)
	}
	b.Write([]byte{0xff, 0xd8})
	for range comments {
		segment(0xfe, []byte("why not")...)
	}
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	segment(0xc2, 8, 0, 8, 0, 8, 1, 1, 0x11, 0)
	// One code, of one bit, in each table: no difference, and an end of band.
	one := append([]byte{1}, make([]byte, 16)...)
	segment(0xc4, append([]byte{0x00}, one...)...)
	segment(0xc4, append([]byte{0x10}, one...)...)
	scan := func(from, to, bits byte) {
		segment(0xda, 1, 1, 0, from, to, bits)
		b.WriteByte(0x7f) // the code, then ones up to the byte's end
	}
	scan(0, 0, 0x00)
	for _, bits := range []byte{0x02, 0x21, 0x10} { // each coefficient coarse, finer, exact
		for k := byte(1); k < 64; k++ {
			scan(k, k, bits)
		}
	}
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}
