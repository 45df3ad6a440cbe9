package resample

import "encoding/binary"

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
