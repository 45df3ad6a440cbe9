package raster

import (
	"encoding/binary"
	"math"
	"sync"
)

// scratch is memory for one call, used again.
type scratch struct {
	bytes  []byte
	wide   []uint16
	sums   []uint32
	packed []uint64
	taps   []tap
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// grown returns n elements, which may hold anything.
func grown[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	return (*s)[:n]
}

// smoothed is Pillow's ImageFilter.SMOOTH of a sum of nine values, of which that in the middle
// counts five times: 13 values in all. Pillow's float32 is exact enough to give the same.
var smoothed = func() (t [1 << 12]byte) {
	for n := range t {
		t[n] = byte(min((2*n+13)/26, 255))
	}
	return t
}()

// Sharpness blends with the smoothed picture, as ImageEnhance.Sharpness. The pixels at the
// edges stay.
func (p bitmap) Sharpness(factor float32) {
	if p.Width < 3 || p.Height < 3 {
		return
	}
	var b blender
	b.set(factor)
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	row, c := p.Width*p.Channels, p.Channels
	src := grown(&s.bytes, len(p.Pix)+8) // eight values are read at a time
	copy(src, p.Pix)
	const even = 0x00ff00ff00ff00ff
	for y := 1; y < p.Height-1; y++ {
		for at, end := y*row+c, (y+1)*row-c; at < end; at += 8 {
			var sums [2]uint64 // of even and odd values
			for _, from := range [...]int{at - row - c, at - row, at - row + c, at - c, at, at + c, at + row - c, at + row, at + row + c} {
				v := binary.LittleEndian.Uint64(src[from:])
				sums[0] += v & even
				sums[1] += v >> 8 & even
			}
			v := binary.LittleEndian.Uint64(src[at:])
			sums[0] += v & even << 2
			sums[1] += v >> 8 & even << 2
			if !b.exact || end-at < 8 {
				for i := range min(8, end-at) {
					l := int(smoothed[sums[i&1]>>(i>>1<<4)&(1<<12-1)])
					p.Pix[at+i] = blend(l, int(v>>(8*i)&0xff), factor)
				}
				continue
			}
			out := p.Pix[at : at+8]
			for i := 0; i < 8; i += 2 {
				l, m := int(smoothed[sums[0]&(1<<12-1)]), int(smoothed[sums[1]&(1<<12-1)])
				out[i] = clipped[(int32(l)+b.add[(int(v&0xff)-l+255)&511])&2047]
				out[i+1] = clipped[(int32(m)+b.add[(int(v>>8&0xff)-m+255)&511])&2047]
				v, sums[0], sums[1] = v>>16, sums[0]>>16, sums[1]>>16
			}
		}
	}
}

// Blur is a Gaussian blur with a kernel of size pixels, an odd number, which reflects at the
// edges, as torchvision's gaussian_blur. It differs from that by at most 1.
func (p bitmap) Blur(size int, sigma float64) {
	half := size / 2
	var all [mostTaps]uint32
	weights := all[:gaussian(&all, half, sigma)]
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	row, c := p.Width*p.Channels, p.Channels
	sums, padded := grown(&s.sums, row), grown(&s.bytes, row+2*half*c)
	wide := grown(&s.wide, len(p.Pix)) // with eight bits after the point
	for y := range p.Height {
		line := p.Pix[y*row:][:row]
		copy(padded[half*c:], line)
		for x := 1; x <= half; x++ {
			copy(padded[(half-x)*c:][:c], line[reflected(-x, p.Width)*c:])
			copy(padded[(half+p.Width-1+x)*c:][:c], line[reflected(p.Width-1+x, p.Width)*c:])
		}
		start(sums, line, weights[0], 1<<7)
		for k, w := range weights[1:] {
			k = (k + 1) * c
			add(sums, padded[half*c-k:], padded[half*c+k:], w)
		}
		for i, v := range sums {
			wide[y*row+i] = uint16(min(v>>8, 255<<8))
		}
	}
	for y := range p.Height {
		start(sums, wide[y*row:], weights[0], 1<<23)
		for k, w := range weights[1:] {
			above, below := reflected(y-k-1, p.Height), reflected(y+k+1, p.Height)
			add(sums, wide[above*row:], wide[below*row:], w)
		}
		for i, v := range sums {
			p.Pix[y*row+i] = byte(v >> 24)
		}
	}
}

// mostTaps bounds half a kernel: maxBlur and its middle.
const mostTaps = maxBlur/2 + 1

// maxBlur is the largest size of a kernel.
const maxBlur = 99

// gaussian sets n weights with 16 bits after the point, that in the middle and those to one
// side of it, as far as they are not 0.
func gaussian(weights *[mostTaps]uint32, half int, sigma float64) (n int) {
	var shape [mostTaps]float64
	sum := 1.0
	for k := 1; k <= half; k++ {
		shape[k] = math.Exp(-.5 * float64(k*k) / (sigma * sigma))
		sum += 2 * shape[k]
	}
	weights[0] = 1 << 16
	for n = 1; n <= half; n++ {
		weights[n] = uint32(math.Round(shape[n] / sum * (1 << 16)))
		if weights[n] == 0 {
			break
		}
		weights[0] -= 2 * weights[n]
	}
	return n
}

// reflected is the place in a row or column of n pixels that stands for place i.
func reflected(i, n int) int {
	for n > 1 && (i < 0 || i >= n) {
		i = max(i, -i)
		i = min(i, 2*(n-1)-i)
	}
	return min(max(i, 0), n-1)
}

func start[T byte | uint16](sums []uint32, v []T, weight, rounding uint32) {
	v = v[:len(sums)]
	for i := range sums {
		sums[i] = uint32(v[i])*weight + rounding
	}
}

func add[T byte | uint16](sums []uint32, a, b []T, weight uint32) {
	a, b = a[:len(sums)], b[:len(sums)]
	for i := range sums {
		sums[i] += (uint32(a[i]) + uint32(b[i])) * weight
	}
}
