package raster

import (
	"encoding/binary"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

const (
	// precision is the number of bits after the point of a weight: 8 are left for
	// the value, 2 for sums that go over.
	precision = 32 - 8 - 2
	half      = 1 << (precision - 1)
	// safeTaps is how many weights a sum may have and never come to 256: each is
	// off by half at most.
	safeTaps = 8192
)

// weights says which source positions make up each position of the result, and
// how much of each.
type weights struct {
	first []int      // of the source positions
	taps  [][]uint32 // fixed point, precision bits
	most  int        // the largest number of taps
}

// newWeights computes the triangle filter. The order of operations is Pillow's,
// since the last bit of a weight depends on it; the conversions keep the
// compiler from fusing a multiplication with an addition.
func newWeights(in, out int) weights {
	scale := float64(in) / float64(out)
	support := max(scale, 1)
	w := weights{first: make([]int, out), taps: make([][]uint32, out)}
	exact := make([]float64, 0, int(math.Ceil(support))*2+1)
	all := make([]uint32, 0, out*cap(exact))
	for i := range out {
		center := float64((float64(i) + 0.5) * scale)
		begin := max(0, int(center-support+0.5))
		end := min(in, int(center+support+0.5))
		exact = exact[:0]
		sum := 0.0
		for j := begin; j < end; j++ {
			x := math.Abs(float64((float64(j) - center + 0.5) * float64(1/support)))
			v := 0.0
			if x < 1 {
				v = 1 - x
			}
			exact = append(exact, v)
			sum += v
		}
		start := len(all)
		for _, v := range exact {
			if sum != 0 {
				v /= sum
			}
			all = append(all, uint32(0.5+float64(v*(1<<precision))))
		}
		w.first[i], w.taps[i] = begin, all[start:len(all):len(all)]
		w.most = max(w.most, len(exact))
	}
	return w
}

// clip takes the integer part of a sum of weighted values, 255 at most.
func clip(sum uint64) byte { return byte(min(sum>>precision, 255)) }

// horizontal scales rows from the width of src to that of dst.
func horizontal(dst, src *transcode.Pixels, w weights, channels int) {
	in, out := src.RowBytes(), dst.RowBytes()
	for y := range dst.Height {
		from, to := src.Pix[y*in:(y+1)*in], dst.Pix[y*out:(y+1)*out]
		switch channels {
		case 1:
			horizontal1(to, from, w)
		case 3:
			horizontal3(to, from, w)
		case 4:
			horizontal4(to, from, w)
		default:
			for c := range channels {
				horizontalN(to, from, w, c, channels)
			}
		}
	}
}

func horizontal1(dst, src []byte, w weights) {
	for i, taps := range w.taps[:len(dst)] {
		from := src[w.first[i]:][:len(taps)]
		sum := uint64(half)
		for j, k := range taps {
			sum += uint64(from[j]) * uint64(k)
		}
		dst[i] = clip(sum)
	}
}

func horizontal3(dst, src []byte, w weights) {
	for i, taps := range w.taps {
		from := src[3*w.first[i]:][:3*len(taps)]
		r, g, b := uint64(half), uint64(half), uint64(half)
		for _, k := range taps {
			if len(from) < 3 {
				break
			}
			r += uint64(from[0]) * uint64(k)
			g += uint64(from[1]) * uint64(k)
			b += uint64(from[2]) * uint64(k)
			from = from[3:]
		}
		if len(dst) < 3 {
			break
		}
		dst[0], dst[1], dst[2] = clip(r), clip(g), clip(b)
		dst = dst[3:]
	}
}

// horizontal4 has two sums in each word, as vertical has.
func horizontal4(dst, src []byte, w weights) {
	if w.most > safeTaps {
		for c := range 4 {
			horizontalN(dst, src, w, c, 4)
		}
		return
	}
	for i, taps := range w.taps {
		from := src[4*w.first[i]:][:4*len(taps)]
		even, odd := uint64(half<<32|half), uint64(half<<32|half)
		for _, k := range taps {
			if len(from) < 4 {
				break
			}
			v := uint64(binary.LittleEndian.Uint32(from))
			even += (v&0xff | v<<16&(0xff<<32)) * uint64(k)
			odd += (v>>8&0xff | v<<8&(0xff<<32)) * uint64(k)
			from = from[4:]
		}
		if len(dst) < 4 {
			break
		}
		dst[0], dst[1] = byte(even>>precision), byte(odd>>precision)
		dst[2], dst[3] = byte(even>>(32+precision)), byte(odd>>(32+precision))
		dst = dst[4:]
	}
}

// horizontalN scales channel c of n.
func horizontalN(dst, src []byte, w weights, c, n int) {
	for i, taps := range w.taps {
		at := w.first[i]*n + c
		sum := uint64(half)
		for _, k := range taps {
			sum += uint64(src[at]) * uint64(k)
			at += n
		}
		dst[i*n+c] = clip(sum)
	}
}

// vertical scales columns from the height of src to that of dst. It goes along
// rows, eight bytes at a time: each word holds two sums, which have room for it.
func vertical(dst, src *transcode.Pixels, w weights) {
	n := dst.RowBytes()
	for y, taps := range w.taps {
		to := dst.Pix[y*n : (y+1)*n]
		from := src.Pix[w.first[y]*n:][:len(taps)*n]
		x := 0
		if w.most <= safeTaps {
			for ; x+8 <= n; x += 8 {
				binary.LittleEndian.PutUint64(to[x:], column8(from[x:], taps, n))
			}
		}
		for ; x < n; x++ {
			sum, at := uint64(half), x
			for _, k := range taps {
				sum += uint64(from[at]) * uint64(k)
				at += n
			}
			to[x] = clip(sum)
		}
	}
}

// column8 is eight columns of one row of the result. src begins at the first
// source row, stride bytes apart from the next.
func column8(src []byte, taps []uint32, stride int) uint64 {
	const (
		low    = 0x0000_00ff_0000_00ff
		halves = half<<32 | half
	)
	a, b, c, d := uint64(halves), uint64(halves), uint64(halves), uint64(halves)
	at := 0
	for _, k := range taps {
		v, k := binary.LittleEndian.Uint64(src[at:]), uint64(k)
		a += v & low * k
		b += v >> 8 & low * k
		c += v >> 16 & low * k
		d += v >> 24 & low * k
		at += stride
	}
	return a>>precision&low | b>>precision&low<<8 | c>>precision&low<<16 | d>>precision&low<<24
}
