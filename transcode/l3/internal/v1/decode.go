package v1

import (
	"encoding/binary"
	"math/bits"

	"github.com/pipefs/pipefs/transcode"
)

// Decode writes the samples of a picture to where dst has them. After an error some
// of them may have been written.
func Decode(dst transcode.Target, src []byte) error {
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
	dst      transcode.Target
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

// A plane has room for a patch. A row of zeros is before its first row, and a zero to the left
// of each row. A function that fills a row writes a zero behind it.
const (
	// margin keeps rows on cache lines of their own.
	margin = 64
	// stride is the distance of rows: a margin, 255 samples or a block more, and a
	// zero at least before the next margin.
	stride = margin + 256 + margin
)

// planeLen is the size of a plane for patches of a height.
func planeLen(height int) int { return (1 + height) * stride }

// planeAt is the position of a sample of the patch.
func planeAt(x, y int) int { return (1+y)*stride + margin + x }

// place moves a patch of one channel from its plane to the picture.
func (d *decoder) place(plane []byte, x, y, c, w, h int) {
	for j := range h {
		row, at := plane[planeAt(0, j):][:w], d.dst.At(x, y+j, c)
		if d.dst.Pixel == 1 {
			copy(d.dst.Pix[at:], row)
			continue
		}
		for _, v := range row {
			d.dst.Pix[at] = v
			at += d.dst.Pixel
		}
	}
}

// interleave moves the patches of three channels to pixels of three bytes.
func (d *decoder) interleave(x, y, w, h int) {
	// In the order of memory, which for BGR is the reverse.
	first, middle, last := 0, 1, 2
	switch d.dst.Channel {
	case 1:
	case -1:
		first, last = 2, 0
	default:
		for c := range 3 {
			d.place(d.planes[c*d.planeLen:][:d.planeLen], x, y, c, w, h)
		}
		return
	}
	at := d.dst.At(x, y, first)
	p, q, r := d.planes[first*d.planeLen:], d.planes[middle*d.planeLen:], d.planes[last*d.planeLen:]
	for j := range h {
		from := planeAt(0, j)
		p, q, r := p[from:][:w], q[from:][:w], r[from:][:w]
		out := d.dst.Pix[at+j*d.dst.Row:][:3*w]
		for i, v := range p {
			o := out[3*i : 3*i+3 : 3*i+3]
			o[0], o[1], o[2] = v, q[i], r[i]
		}
	}
}

// predict guesses the samples of a row from those of the row above, which begins one to
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
func predict(dst, above []byte) {
	a, b := int(above[0]), int(above[1])
	above = above[2:]
	above = above[:len(dst)]
	pc := abs(a - b)
	for i := range dst {
		c := int(above[i])
		pa, pb := abs(c-b), abs(a+c-2*b)
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

func abs(v int) int {
	sign := v >> (bits.UintSize - 1)
	return (v ^ sign) - sign
}
