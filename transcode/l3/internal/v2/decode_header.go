package v2

import (
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode"
)

// parse checks all of a patch that can be checked before its blocks are decoded, and
// sets where its parts are.
func (s *Scratch) parse(src []byte) error {
	bad := func(format string, args ...any) error { return transcode.Errorf(transcode.ErrBad, format, args...) }
	if len(src) < headLen {
		return transcode.Errorf(transcode.ErrTruncated, "patch of %d bytes", len(src))
	}
	colour, preds, flags := src[0], src[1], src[2]
	switch {
	case colour >= colours || s.samples < 3 && colour != colourNone:
		return bad("colour transform %d of %d channels", colour, s.samples)
	case preds>>(2*s.samples) != 0:
		return bad("predictors %#x of %d channels", preds, s.samples)
	case flags&^flagRice != 0 || src[3] != 0:
		return bad("flags %#x, %#x", flags, src[3])
	}
	s.header = header{colour: int(colour), med: preds == 0, rice: flags&flagRice != 0, codes: headLen}
	for c := range s.samples {
		p := int(preds >> (2 * c) & 3)
		if p > predMix {
			return bad("predictor %d", p)
		}
		s.preds[c] = p
	}
	if s.rice {
		s.codes += 4 * streams
	}
	s.raw = s.codes + 2*s.groups*s.coded
	if s.raw > len(src) {
		return transcode.Errorf(transcode.ErrTruncated, "patch of %d bytes, its codes end at %d", len(src), s.raw)
	}
	units, rice := sumCodes(src[s.codes:s.raw])
	if rice && !s.rice {
		return bad("Rice codes without streams")
	}
	return s.streams(src, s.raw+8*units)
}

// streams sets where the streams are, the first one at offset at.
func (s *Scratch) streams(src []byte, at int) error {
	// The sums of 8 numbers of 32 bits, and of codes that src has, do not overflow.
	end := uint64(at)
	for i := range s.pos {
		s.pos[i] = 8 * end
		if s.rice {
			end += uint64(binary.LittleEndian.Uint32(src[headLen+4*i:]))
		}
		s.end[i] = 8 * end
	}
	if n := uint64(len(src)); end > n {
		return transcode.Errorf(transcode.ErrTruncated, "patch of %d bytes, its parts take %d", n, end)
	} else if end < n {
		return transcode.Errorf(transcode.ErrBad, "patch of %d bytes, its parts take %d", n, end)
	}
	return nil
}

// sumCodes returns the sum of rawLen, and if there are Rice codes. The codes are many,
// so it takes 16 at a time.
func sumCodes(src []byte) (units int, rice bool) {
	const (
		lowest = 0x1111111111111111
		nibble = 0x0f0f0f0f0f0f0f0f
		sum    = 0x0101010101010101 // a product with it has the sum of bytes on top
	)
	var anyRice uint64
	for ; len(src) >= 8; src = src[8:] {
		x := binary.LittleEndian.Uint64(src)
		// The length is the lower three bits, except that of 8, which is 8.
		low, top := x&(7*lowest), x>>3&lowest
		some := (low | low>>1 | low>>2) & lowest
		eight := top &^ some
		anyRice |= top & some
		n := low&nibble + low>>4&nibble + 8*(eight&nibble+eight>>4&nibble)
		// At most 16 a byte, and 128 in all.
		units += int(n * sum >> 56)
	}
	for _, v := range src {
		for _, code := range [2]uint8{v & 15, v >> 4} {
			units += int(rawLen[code])
			if code >= codeRice {
				anyRice = 1
			}
		}
	}
	return units, anyRice != 0
}
