package l3

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/pipefs/pipefs/transcode"
)

// Version 1 of the format, as docs/l3.md specifies it. A plain file is one that the authors'
// decoder reads: RGB, with both sides multiples of the patch's. An extended file is ours: grey
// too, and patches that are cut to the picture.
//
// A plain file with other sides does not hold all of the picture, and is refused. So is a patch
// whose rows do not add up to the size in the table; the authors' decoder goes on with the
// bytes that follow. Bytes after the last patch are ignored, as by theirs.
const (
	magic1        = "LLL."
	magicExtended = "LLL+"
	headerLen1    = 13  // an extended file has one byte more, the number of channels
	maxPatch1     = 255 // the largest side of a patch
	defaultPatch1 = 64  // the authors' choice
)

func isVersion1(prefix []byte) bool {
	return len(prefix) >= 4 && (string(prefix[:4]) == magic1 || string(prefix[:4]) == magicExtended)
}

// table1 is where the size table of a file begins.
func table1(prefix []byte) int {
	if len(prefix) >= 4 && prefix[3] == magicExtended[3] {
		return headerLen1 + 1
	}
	return headerLen1
}

// parseHeader1 reads the header from the first bytes of a file.
func parseHeader1(prefix []byte) (Header, error) {
	h := Header{Version: 1, Mode: transcode.ModeRGB}
	if len(prefix) >= 4 && !isVersion1(prefix) {
		return h, transcode.Errorf(transcode.ErrBad, "no L3 file: starts with % x", prefix[:4])
	}
	n := table1(prefix)
	if len(prefix) < n {
		return h, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, its header takes %d", len(prefix), n)
	}
	// int32 in the format: the sign is checked before it matters how wide int is.
	width, height := int32(binary.LittleEndian.Uint32(prefix[4:])), int32(binary.LittleEndian.Uint32(prefix[8:]))
	side := int(prefix[12])
	h.Width, h.Height, h.PatchWidth, h.PatchHeight = int(width), int(height), side, side
	extended, channels := n > headerLen1, byte(3)
	if extended {
		channels = prefix[13]
	}
	if channels == 1 {
		h.Mode = transcode.ModeL
	}
	switch {
	case width < 1 || height < 1:
		return h, transcode.Errorf(transcode.ErrBad, "L3 picture of %d by %d pixels", width, height)
	case side == 0:
		return h, transcode.Errorf(transcode.ErrBad, "L3 patches of 0 by 0 samples")
	case channels != 1 && channels != 3:
		return h, transcode.Errorf(transcode.ErrBad, "L3 picture of %d channels", channels)
	case !extended && (h.Width%side != 0 || h.Height%side != 0):
		return h, transcode.Errorf(transcode.ErrUnsupported,
			"L3 picture of %d by %d pixels in patches of %d: rows and columns beyond the last whole patch are not in the file", width, height, side)
	}
	return h, nil
}

// parts1 reads the size table.
func (h *Header) parts1(src []byte) ([]Part, error) {
	table, channels := table1(src), h.Mode.Channels()
	// Two numbers below 2³¹; nothing is allocated before it is known that the file has
	// a table of that size.
	n := uint64(h.columns()) * uint64(h.rows())
	if n > uint64(len(src)) || table+2*channels*int(n) > len(src) {
		return nil, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes ends in its table of %d sizes", len(src), uint64(channels)*n)
	}
	parts := make([]Part, n)
	at := table + 2*channels*int(n)
	for c := range channels {
		for i := range parts {
			size := int(binary.LittleEndian.Uint16(src[table:]))
			parts[i].Offset[c], parts[i].Length[c] = at, size
			table += 2
			at += size
		}
		if at > len(src) {
			return nil, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, channel %d ends at byte %d", len(src), c, at)
		}
	}
	return parts, nil
}

// decode1 writes all samples of a file to dst, which has to hold them.
func (h *Header) decode1(dst transcode.Target, src []byte) error {
	parts, err := h.parts1(src)
	if err != nil {
		return err
	}
	for i := range parts {
		x, y, width, height := h.rect(i)
		for c := range h.Mode.Channels() {
			to := dst
			to.Base = dst.At(x, y, c)
			at, n := parts[i].Offset[c], parts[i].Length[c]
			if err := decodePatch1(to, src[at:at+n], width, height); err != nil {
				return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d of channel %d: %v", x, y, c, err)
			}
		}
	}
	return nil
}

// rows1 are a row of a patch and the one above it, which take turns. Around each is a 0 for the samples
// that a prediction does not find.
type rows1 [2][1 + maxPatch1 + 1]byte

func (r *rows1) at(y, width int) (above, row []byte) {
	return r[(y+1)%2][:width+2], r[y%2][1 : width+1]
}

// decodePatch1 decodes a patch of one channel.
func decodePatch1(dst transcode.Target, src []byte, width, height int) error {
	var rows rows1
	n := len(src)
	for y := range height {
		if len(src) < 2 {
			return fmt.Errorf("its %d bytes end before row %d", n, y)
		}
		above, row := rows.at(y, width)
		predict1(row, above)
		head := uint(src[0]) | uint(src[1])<<8
		nbits, base := head&15, byte(head>>4)
		size := (4 + 8 + width*int(nbits) + 7) / 8
		switch {
		case nbits > 8:
			return fmt.Errorf("row %d has deltas of %d bits", y, nbits)
		case size > len(src):
			return fmt.Errorf("row %d takes %d bytes, and %d are left", y, size, len(src))
		}
		// acc holds what has been read of the row and not been used.
		acc, have, next := head>>12, uint(4), src[2:]
		at := dst.At(0, y, 0)
		for x := range row {
			if have < nbits {
				acc |= uint(next[0]) << have
				have += 8
				next = next[1:]
			}
			row[x] += base + byte(acc&(1<<nbits-1))
			dst.Pix[at] = row[x]
			at += dst.Pixel
			acc >>= nbits
			have -= nbits
		}
		src = src[size:]
	}
	if len(src) > 0 {
		return fmt.Errorf("its rows take %d bytes, the table says %d", n-len(src), n)
	}
	return nil
}

// encode1 makes a file of version 1, a plain one where that can hold the picture.
func (h *Header) encode1(source transcode.Target) []byte {
	channels := h.Mode.Channels()
	extended := channels != 3 || h.Width%h.PatchWidth != 0 || h.Height%h.PatchHeight != 0
	b := []byte(magic1)
	if extended {
		b = []byte(magicExtended)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Width))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Height))
	b = append(b, byte(h.PatchWidth))
	if extended {
		b = append(b, byte(channels))
	}
	table, n := len(b), h.columns()*h.rows()
	b = append(b, make([]byte, 2*channels*n)...)
	for c := range channels {
		for i := range n {
			x, y, width, height := h.rect(i)
			from := source
			from.Base = source.At(x, y, c)
			begin := len(b)
			b = appendPatch1(b, from, width, height)
			// No patch is too large: 255 rows of 8 bits take exactly 65,535 bytes.
			binary.LittleEndian.PutUint16(b[table:], uint16(len(b)-begin))
			table += 2
		}
	}
	return b
}

// appendPatch1 appends a patch of one channel.
func appendPatch1(b []byte, source transcode.Target, width, height int) []byte {
	var rows rows1
	var residuals [maxPatch1]byte
	for y := range height {
		above, row := rows.at(y, width)
		deltas := residuals[:width]
		predict1(deltas, above)
		least, greatest := int8(127), int8(-128)
		at := source.At(0, y, 0)
		for x, v := range deltas {
			row[x] = source.Pix[at]
			at += source.Pixel
			deltas[x] = row[x] - v
			least, greatest = min(least, int8(deltas[x])), max(greatest, int8(deltas[x]))
		}
		base, span := byte(least), byte(greatest)-byte(least)
		if y == 0 {
			// It holds no differences: its span is smaller when it is unsigned.
			base = slices.Min(deltas)
			span = slices.Max(deltas) - base
		}
		nbits := uint(bits.Len8(span))
		acc, n := nbits|uint(base)<<4, uint(12)
		for _, v := range deltas {
			acc |= uint(v-base) << n
			for n += nbits; n >= 8; n -= 8 {
				b = append(b, byte(acc))
				acc >>= 8
			}
		}
		if n > 0 {
			b = append(b, byte(acc))
		}
	}
	return b
}

// predict1 guesses the samples of a row from those of the row above, which begins one to
// the left and ends one to the right of it. For each, let a be the sample above to the
// left, b the one above, and c the one above to the right; 0 where there is none. With
// pa = |c-b|, pb = |a+c-2b| and pc = |a-b|,
//
//   - if a is 0, it is b if pb ≤ pc, and otherwise c;
//   - else if c is 0, it is a if pa ≤ pb, and otherwise b;
//   - else it is a if pa ≤ pb and pa ≤ pc, else b if pa ≤ pc, else c.
//
// The zero tests, which a dark sample meets too, and the last comparison, where the
// paper has pb, are those of the authors' encoder and decoder, and so of the format.
//
// Which sample it is cannot be foreseen: branches would take most of the time.
func predict1(dst, above []byte) {
	a, b := int(above[0]), int(above[1])
	above = above[2:]
	above = above[:len(dst)]
	pc := distance(a, b)
	for i := range dst {
		c := int(above[i])
		pa, pb := distance(c, b), distance(a+c, 2*b)
		ab := choose(notAbove(pa, pb), a, b)
		usual := choose(notAbove(pa, pc)|notAbove(c, 0), ab, c)
		dst[i] = byte(choose(notAbove(a, 0), choose(notAbove(pb, pc), b, c), usual))
		a, b, pc = b, c, pa
	}
}

// notAbove has all bits set if v ≤ limit, and none otherwise.
func notAbove(v, limit int) int { return (v - limit - 1) >> (bits.UintSize - 1) }

// choose returns a where all bits of mask are set, and b where none is.
func choose(mask, a, b int) int { return b ^ (a^b)&mask }

func distance(a, b int) int {
	v := a - b
	sign := v >> (bits.UintSize - 1)
	return (v ^ sign) - sign
}
