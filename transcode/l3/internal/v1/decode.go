package v1

import (
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
)

// Decode writes the samples of a picture to where dst has them. After an error some
// of them may have been written.
func Decode(dst layout.Target, src []byte) error {
	h, err := Parse(src)
	if err != nil {
		return err
	}
	f, err := open(h, src)
	if err != nil {
		return err
	}
	// Here, since open has bounded the sides by the length of the file.
	if err := dst.Check(h.Width, h.Height, h.Channels, 1); err != nil {
		return transcode.Errorf(transcode.ErrInternal, "%v", err)
	}
	rows := min(h.Patch, h.Height)
	d := decoder{file: f, dst: dst, planes: make([]byte, h.Channels*planeLen(rows)), planeLen: planeLen(rows)}
	for y := 0; y < h.Height; y += h.Patch {
		for x := 0; x < h.Width; x += h.Patch {
			if err := d.patches(x, y, min(h.Patch, h.Width-x), min(h.Patch, h.Height-y)); err != nil {
				return err
			}
		}
	}
	return nil
}

// file is one whose size table has been checked.
type file struct {
	Header
	src []byte
	// Of the next patch of each channel: its entry in the size table, and where its
	// bytes begin.
	entry, offset [3]int
}

func open(h Header, src []byte) (file, error) {
	f := file{Header: h, src: src}
	// This product of two numbers below 2³¹ does not overflow; the sides of patches are
	// at most 255, so that what passes here has sides that can be multiplied.
	n := uint64(h.columns()) * uint64(h.rows())
	if n > uint64(len(src)) || h.len()+2*h.Channels*int(n) > len(src) {
		return f, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes ends in its table of %d sizes", len(src), uint64(h.Channels)*n)
	}
	end := h.len() + 2*h.Channels*int(n)
	for c := range h.Channels {
		f.entry[c], f.offset[c] = h.len()+2*c*int(n), end
		table := src[f.entry[c] : f.entry[c]+2*int(n)]
		for i := 0; i < len(table); i += 2 {
			end += int(binary.LittleEndian.Uint16(table[i:]))
		}
		// Checked here, so that end never exceeds the file by more than one channel.
		if end > len(src) {
			return f, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, channel %d ends at byte %d", len(src), c, end)
		}
	}
	return f, nil
}

// next returns the position and the size of the next patch of a channel.
func (f *file) next(c int) (offset, size int) {
	offset, size = f.offset[c], int(binary.LittleEndian.Uint16(f.src[f.entry[c]:]))
	f.entry[c] += 2
	f.offset[c] += size
	return offset, size
}

type decoder struct {
	file
	dst      layout.Target
	planes   []byte
	planeLen int
}

// patches decodes the patches of all channels at x, y.
func (d *decoder) patches(x, y, w, h int) error {
	for c := range d.Channels {
		offset, size := d.next(c)
		plane := d.planes[c*d.planeLen:][:d.planeLen]
		used := decodeRows(plane, d.src[offset:offset+size], w, h)
		if used != size {
			return damaged(d.src[offset:offset+size], x, y, c, w, h)
		}
		if !(d.Channels == 3 && d.dst.Pixel == 3) {
			d.place(plane, x, y, c, w, h)
		}
	}
	if d.Channels == 3 && d.dst.Pixel == 3 {
		d.interleave(x, y, w, h)
	}
	return nil
}

// decodeRows decodes a patch and returns how many bytes it took, -1 if there are too
// few or a width of deltas is none.
func decodeRows(plane, src []byte, w, h int) int {
	pos := 0
	for y := range h {
		if pos+2 > len(src) {
			return -1
		}
		head := uint(src[pos]) | uint(src[pos+1])<<8
		nbits := head & 15
		size := rowLen(w, nbits)
		if nbits > 8 || pos+size > len(src) {
			return -1
		}
		row, out := src[pos:pos+size], plane[planeAt(0, y):][:w]
		predict(out, plane[planeAt(-1, y-1):][:w+2])
		plane[planeAt(w, y)] = 0 // where a wider patch may have been before
		base := byte(head >> 4)
		// bits holds what has been read of the row and not been used.
		bits, have, next := head>>12, uint(4), 2
		for x, v := range out {
			if have < nbits {
				bits |= uint(row[next]) << have
				have += 8
				next++
			}
			out[x] = v + base + byte(bits&(1<<nbits-1))
			bits >>= nbits
			have -= nbits
		}
		pos += size
	}
	return pos
}

// rowLen is the number of bytes of a row of w deltas.
func rowLen(w int, nbits uint) int { return (4 + 8 + w*int(nbits) + 7) / 8 }

// damaged says what is wrong with a patch.
func damaged(src []byte, x, y, c, w, h int) error {
	pos := 0
	for row := range h {
		if pos+2 > len(src) {
			return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d of channel %d: its %d bytes end before row %d", x, y, c, len(src), row)
		}
		nbits := uint(src[pos] & 15)
		if nbits > 8 {
			return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d of channel %d: row %d has deltas of %d bits", x, y, c, row, nbits)
		}
		pos += rowLen(w, nbits)
	}
	return transcode.Errorf(transcode.ErrBad, "L3 patch at %d, %d of channel %d: its rows take %d bytes, the table says %d", x, y, c, pos, len(src))
}
