package resample

import "encoding/binary"

// rowsAtOnce is how many rows of so many channels horizontalRows scales.
func rowsAtOnce(channels int) int {
	if channels == 1 {
		return mostRows
	}
	return fewRows
}

// horizontalRows scales rowsAtOnce rows. It may read margin bytes behind what the last of
// them needs, and write as many behind each row.
func horizontalRows(dst []byte, dstStride int, src []byte, srcStride int, w *weights, channels int, mirror bool) {
	p := &w.packed
	entry, step := p.at(0), 4*p.entry()
	if mirror {
		entry, step = p.at(w.out-1), -step
	}
	turns := (w.out + positions - 1) / positions
	switch channels {
	case 1:
		horizontal1(&dst[0], dstStride, &src[0], srcStride, entry, step, turns, p.quads)
	case 3:
		horizontal3(&dst[0], dstStride, &src[0], srcStride, entry, step, turns, p.quads)
	case 4:
		horizontal4(&dst[0], dstStride, &src[0], srcStride, entry, step, turns, p.quads)
	}
}

// verticalRow makes row y, of at least columns bytes.
func verticalRow(dst, src []byte, stride int, w *weights, y int) {
	vertical(&dst[0], &src[int(w.first[y])*stride], stride, len(dst), w.packed.at(y), (w.most+1)/2)
}

// clip takes the integer part of a sum of weighted values, from 0 to 255.
func clip(sum int32) byte { return byte(min(max(sum>>precision, 0), 255)) }

// horizontalGo scales a row of pixels of so many channels.
func horizontalGo(dst, src []byte, w *weights, channels int, mirror bool) {
	at, step := 0, channels
	if mirror {
		at, step = (w.out-1)*channels, -channels
	}
	for i, first := range w.first {
		taps := w.of(i)
		from := src[int(first)*channels:][:len(taps)*channels]
		to := dst[at : at+channels]
		at += step
		if channels == 3 {
			triple(to, from, taps)
			continue
		}
		for c := range to {
			sum, j := int32(half), c
			for _, k := range taps {
				sum += int32(from[j]) * k
				j += channels
			}
			to[c] = clip(sum)
		}
	}
}

// triple makes one pixel of three channels.
func triple(dst, src []byte, taps []int32) {
	r, g, b := int32(half), int32(half), int32(half)
	for _, k := range taps {
		if len(src) < 3 {
			break
		}
		r += int32(src[0]) * k
		g += int32(src[1]) * k
		b += int32(src[2]) * k
		src = src[3:]
	}
	dst[0], dst[1], dst[2] = clip(r), clip(g), clip(b)
}

// verticalGo makes row y of the result, along the rows of src, which are stride bytes apart:
// eight bytes at a time where each word has room for two sums.
func verticalGo(dst, src []byte, stride int, w *weights, y int) {
	taps := w.of(y)
	src = src[int(w.first[y])*stride:]
	x := 0
	if w.moderate {
		for ; x+8 <= len(dst); x += 8 {
			binary.LittleEndian.PutUint64(dst[x:], column8(src[x:], taps, stride))
		}
	}
	for ; x < len(dst); x++ {
		sum, at := int32(half), x
		for _, k := range taps {
			sum += int32(src[at]) * k
			at += stride
		}
		dst[x] = clip(sum)
	}
}

// column8 is eight columns of one row of the result.
func column8(src []byte, taps []int32, stride int) uint64 {
	const (
		low    = 0x0000_00ff_0000_00ff
		halves = half<<32 | half
	)
	a, b, c, d := uint64(halves), uint64(halves), uint64(halves), uint64(halves)
	at := 0
	for _, k := range taps {
		v, k := binary.LittleEndian.Uint64(src[at:]), uint64(int64(k))
		a += v & low * k
		b += v >> 8 & low * k
		c += v >> 16 & low * k
		d += v >> 24 & low * k
		at += stride
	}
	return pair(a) | pair(b)<<8 | pair(c)<<16 | pair(d)<<24
}

// pair clips two sums in a word. A lower one that is negative has borrowed from the upper.
func pair(v uint64) uint64 {
	lower := int32(v)
	upper := int32((v - uint64(int64(lower))) >> 32)
	return uint64(clip(lower)) | uint64(clip(upper))<<32
}

// packed is how kernels in assembly want weights: an entry for each position, and a few
// of zeros before the first and after the last one, since a kernel makes several positions.
//
// An entry is the source position of the first tap, and then, for each two taps, their low
// and their high parts: 16 bits each, those of the first tap below. Taps that fill up an
// entry weigh nothing.
type packed struct {
	words []uint32 // nil: these weights are left to the portable form
	quads int      // groups of four taps in an entry
	reach int      // the source position behind the last one that is read
}

const (
	// positions is how many of them a kernel of the horizontal pass makes at a time: of
	// mostRows rows of one channel, or of fewRows rows of more.
	positions         = 4
	mostRows, fewRows = 8, 4
	// mostPacked is the largest number of taps: beyond it nearly all of the time goes to
	// multiplications that the portable form does as well.
	mostPacked = 4096
	// mostHigh is what the high parts of two taps may be together, in magnitude.
	mostHigh = 128
)

// entry is the number of words for a position.
func (p *packed) entry() int { return 1 + 4*p.quads }

// at is the entry of a position of the result.
func (p *packed) at(i int) *uint32 { return &p.words[(positions-1+i)*p.entry()] }

func pack(w *weights) packed {
	if w.most == 0 || w.most > mostPacked {
		return packed{}
	}
	p := packed{quads: (w.most + 3) / 4}
	p.words = make([]uint32, (w.out+2*(positions-1))*p.entry())
	for i := range w.out {
		e := p.words[(positions-1+i)*p.entry():][:p.entry()]
		e[0] = uint32(w.first[i])
		p.reach = max(p.reach, int(w.first[i])+4*p.quads)
		together := int32(0)
		for j, k := range w.of(i) {
			low := int32(int16(k))
			high := (k - low) >> 16
			if j%2 == 0 {
				together = 0
			}
			together += max(high, -high)
			if together > mostHigh || high == mostHigh {
				return packed{}
			}
			shift := 16 * (j % 2)
			e[1+j&^1] |= uint32(uint16(low)) << shift
			e[2+j&^1] |= uint32(uint16(high)) << shift
		}
	}
	return p
}

// premultiply multiplies the colours by the last channel, as Pillow does before it mixes
// pixels.
func premultiply(dst, src []byte, channels int) {
	for i := 0; i+channels <= len(src); i += channels {
		alpha := int(src[i+channels-1])
		for c := range channels - 1 {
			t := int(src[i+c])*alpha + 128
			dst[i+c] = byte((t>>8 + t) >> 8)
		}
		dst[i+channels-1] = byte(alpha)
	}
}

// unpremultiply undoes premultiply in place, as far as rounding lets it.
func unpremultiply(pix []byte, channels int) {
	for i := 0; i+channels <= len(pix); i += channels {
		alpha := int(pix[i+channels-1])
		if alpha == 0 || alpha == 255 {
			continue
		}
		for c := range channels - 1 {
			pix[i+c] = byte(min(255, 255*int(pix[i+c])/alpha))
		}
	}
}
