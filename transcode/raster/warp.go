package raster

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// ShearX moves each row by level times its distance from the top, as affine with that shear and
// the upper left corner as its centre.
func (p bitmap) ShearX(level float64) {
	if p.Nearest {
		p.warpNearest([6]float64{1, level, 0, 0, 1, 0})
		return
	}
	p.shear(shear{p, nil, level, p.Width, p.Channels, false}, func(taps []tap, y int, s *shear) {
		first, weight := s.split(y)
		for x := range taps {
			taps[x] = tap{at: int32((x + first) * p.Channels)}
			if x >= -first && x < p.Width-1-first {
				taps[x].weight = weight
			}
		}
	})
}

// ShearY moves each column by level times its distance from the left.
func (p bitmap) ShearY(level float64) {
	if p.Nearest {
		p.warpNearest([6]float64{1, 0, 0, level, 1, 0})
		return
	}
	row := p.Width * p.Channels
	p.shear(shear{p, nil, level, p.Height, row, true}, func(taps []tap, y int, s *shear) {
		if y > 0 {
			return // as for the row above
		}
		for x := range taps {
			first, weight := s.split(x)
			taps[x] = tap{int32(x*p.Channels + first*row), weight}
		}
	})
}

// A tap is where a pixel of a row comes from: from the one whose bytes begin at, and from the next one with
// a weight of 32 bits behind the point. With a weight of 0 only Pillow's own operations tell.
type tap struct {
	at     int32
	weight uint32
}

// shear moves pixels along one direction.
type shear struct {
	bitmap
	src   []byte
	level float64
	size  int // pixels in that direction
	step  int // bytes from a pixel to the next one in that direction
	down  bool
}

func (p bitmap) shear(s shear, set func(taps []tap, y int, s *shear)) {
	if s.level == 0 {
		return
	}
	mem := scratches.Get().(*scratch)
	defer scratches.Put(mem)
	mem.bytes = append(mem.bytes[:0], p.Pix...)
	s.src = mem.bytes
	row, c := p.Width*p.Channels, p.Channels
	mem.taps = grown(&mem.taps, p.Width)
	for y := range p.Height {
		set(mem.taps, y, &s)
		from := y * row
		for x, t := range mem.taps {
			out, at := p.Pix[from+x*c:][:c], from+int(t.at)
			if t.weight == 0 || uint(at) >= uint(len(s.src)-s.step) {
				s.exact(out, x, y)
				continue
			}
			a, b, w := s.src[at:][:c], s.src[at+s.step:][:c], int64(t.weight)
			if len(out) != 3 {
				v, sure := between(a[0], b[0], w)
				if out[0] = v; !sure {
					s.exact(out, x, y)
				}
				continue
			}
			v0, sure0 := between(a[0], b[0], w)
			v1, sure1 := between(a[1], b[1], w)
			v2, sure2 := between(a[2], b[2], w)
			if out[0], out[1], out[2] = v0, v1, v2; !sure0 || !sure1 || !sure2 {
				s.exact(out, x, y)
			}
		}
	}
}

// between blends two values. It is not sure where the true value may have another whole part: a weight is off
// by less than 2^-32, and the place that Pillow computes by less than 2^-40.
func between(a, b byte, weight int64) (v byte, sure bool) {
	sum := int64(a)<<32 + (int64(b)-int64(a))*weight
	return byte(sum >> 32), uint32(sum)+1<<12 >= 1<<13 || a == b
}

// split is the place of the first of two pixels that make pixel 0 of line n, and the weight of the second.
func (s *shear) split(n int) (first int, weight uint32) {
	at := float64(s.level * (float64(n) + .5))
	low := math.Floor(at)
	if w := (at - low) * (1 << 32); w > 1<<12 && w < 1<<32-1<<12 {
		weight = uint32(w)
	}
	return int(low), weight
}

// exact makes pixel x, y by Pillow's operations, in double precision and in their order.
func (s *shear) exact(out []byte, x, y int) {
	along, other := x, y
	if s.down {
		along, other = y, x
	}
	at := float64(along) + .5 + float64(s.level*(float64(other)+.5))
	if at < 0 || at >= float64(s.size) {
		clear(out)
		return
	}
	at -= .5
	low := math.Floor(at)
	line := s.src[(y*s.Width+x)*s.Channels-along*s.step:]
	first, second := line[max(int(low), 0)*s.step:], line[min(int(low)+1, s.size-1)*s.step:]
	for c := range out {
		a, b := float64(first[c]), float64(second[c])
		out[c] = byte(a + float64((b-a)*(at-low)))
	}
}

// Rotate turns around the middle, counter-clockwise, as Pillow's rotate.
func (p bitmap) Rotate(degrees float64) {
	if degrees = math.Mod(degrees, 360); degrees < 0 {
		degrees += 360
	}
	if degrees == 0 {
		return
	}
	sin, cos := sincos(-float64(degrees * (math.Pi / 180)))
	m := [6]float64{cos, sin, 0, -sin, cos, 0}
	x, y := float64(p.Width)/2, float64(p.Height)/2
	m[2] = float64(m[0]*-x) + float64(m[1]*-y) + 0 + x
	m[5] = float64(m[3]*-x) + float64(m[4]*-y) + 0 + y
	p.warp(m)
}

// sincos are rounded to 15 digits after the point, as in Pillow. Those of package math depend on the
// machine in the last bit, and some are on the border between two such numbers.
func sincos(x float64) (sin, cos float64) {
	of := func(v float64) *big.Float { return new(big.Float).SetPrec(96).SetFloat64(v) }
	sums, by, n := [2]*big.Float{of(1), of(0)}, of(x), of(0)
	term := of(1)
	for i := 1; i < 48; i++ {
		term.Quo(term.Mul(term, by), n.SetInt64(int64(i)))
		if sum := sums[i&1]; i&2 == 0 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
	}
	return rounded(sums[1]), rounded(sums[0])
}

// rounded is Python's round(v, 15) of the nearest float64.
func rounded(v *big.Float) float64 {
	near, _ := v.Float64()
	near, _ = strconv.ParseFloat(strconv.FormatFloat(near, 'f', 15, 64), 64) // what was just written
	return near
}

// Translate moves by whole pixels, to the right and down.
func (p bitmap) Translate(dx, dy int) {
	c := p.Channels
	if p.Nearest {
		c *= p.Bytes
	}
	row := p.Width * c
	from, to, n := max(0, -dx), max(0, dx), max(0, p.Width-max(dx, -dx))
	if n == 0 {
		dy = p.Height
	}
	for i := range p.Height {
		y := i
		if dy > 0 { // from below: what is moved is still there
			y = p.Height - 1 - i
		}
		line := p.Pix[y*row:][:row]
		if y-dy < 0 || y-dy >= p.Height {
			clear(line)
			continue
		}
		copy(line[to*c:][:n*c], p.Pix[(y-dy)*row+from*c:])
		clear(line[:to*c])
		clear(line[(to+n)*c:])
	}
}

// Fill fills a box with a colour, as erase.
func (p bitmap) Fill(x, y, width, height int, colour []byte) {
	for row := y; row < y+height; row++ {
		line := p.Pix[(row*p.Width+x)*p.Channels:][:width*p.Channels]
		for i := range line {
			line[i] = colour[i%p.Channels]
		}
	}
}

// A packed pixel has its channels in lanes of 28 bits: a weight of 20 bits times a value fits.
// A grey one has its value in all three.
const (
	lane       = 28
	weightBits = 20
	one        = 1 << weightBits
	// The weights are off by less than 2^-20 each, and a value by less than 2^-10.
	margin = 1 << (weightBits - 10)
	// Places are fixed-point.
	placeBits = 40
)

// pack copies the pixels.
func (p bitmap) pack(to []uint64) {
	if p.Channels == 1 {
		for i, v := range p.Pix {
			to[i] = uint64(v) * (1 | 1<<lane | 1<<(2*lane))
		}
		return
	}
	pix := p.Pix
	for i := range to {
		to[i] = uint64(pix[0]) | uint64(pix[1])<<lane | uint64(pix[2])<<(2*lane)
		pix = pix[3:]
	}
}

// warp takes pixel x, y from m0·x + m1·y + m2, m3·x + m4·y + m5, as Pillow's transform with
// AFFINE and BILINEAR. What is outside is 0.
func (p bitmap) warp(m [6]float64) {
	if p.Nearest {
		p.warpNearest(m)
		return
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	w := warper{bitmap: p, src: grown(&s.packed, p.Width*p.Height), m: m}
	p.pack(w.src)
	stepX, stepY := fixed(m[0]), fixed(m[3])
	for y := range p.Height {
		fromX := fixed(m[0]/2 + m[1]*(float64(y)+.5) + m[2] - .5)
		fromY := fixed(m[3]/2 + m[4]*(float64(y)+.5) + m[5] - .5)
		for x := 0; x < p.Width; {
			atX, atY := fromX+int64(x)*stepX, fromY+int64(x)*stepY
			n := min(within(atX, stepX, p.Width-1), within(atY, stepY, p.Height-1), p.Width-x)
			if n == 0 {
				w.exact(x, y)
				x++
				continue
			}
			w.inside(x, y, n, atX, atY, stepX, stepY)
			x += n
		}
	}
}

func fixed(v float64) int64 { return int64(math.Round(v * (1 << placeBits))) }

// within is how many of the places at, at+step, … lie from 0 to less than end before one does not.
func within(at, step int64, end int) int {
	last := int64(end)<<placeBits - 1
	switch {
	case at < 0 || at > last:
		return 0
	case step > 0:
		return int((last-at)/step) + 1
	case step < 0:
		return int(at/-step) + 1
	}
	return math.MaxInt
}

type warper struct {
	bitmap
	src []uint64
	m   [6]float64
}

// edge reports whether a place may as well lie between the pixels before it, or behind it.
func edge(weight uint64) bool { return (weight+1)&(one-1) < 2 }

// undecided reports whether a value is near another one, and the four pixels are not all the same.
func undecided(lo, third uint64, above, below []uint64) bool {
	differ := (above[0] ^ above[1]) | (above[0] ^ below[0]) | (above[0] ^ below[1])
	return near(lo) && differ&0xff != 0 || near(lo>>lane) && differ>>lane&0xff != 0 || near(third) && differ>>(2*lane) != 0
}

// inside makes n pixels from x, y on, each from four pixels of the picture.
func (w *warper) inside(x, y, n int, atX, atY, stepX, stepY int64) {
	out := w.Pix[(y*w.Width+x)*w.Channels:][:n*w.Channels]
	for ; n > 0; n-- {
		above := w.src[int(atY>>placeBits)*w.Width+int(atX>>placeBits):]
		below := above[w.Width : w.Width+2]
		right, down := uint64(atX)>>(placeBits-weightBits)&(one-1), uint64(atY)>>(placeBits-weightBits)&(one-1)
		both := right * down >> weightBits
		hi, lo := bits.Mul64(above[0], one-right-down+both)
		h, l := bits.Mul64(above[1], right-both)
		lo, carry := bits.Add64(lo, l, 0)
		hi += h + carry
		h, l = bits.Mul64(below[0], down-both)
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
		h, l = bits.Mul64(below[1], both)
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
		third := lo>>(2*lane) | hi<<(64-2*lane)
		if (near(lo) || near(lo>>lane) || near(third)) &&
			(edge(right) || edge(down) || undecided(lo, third, above[:2], below)) {
			w.exact(x, y)
		} else if len(out) >= 3 && w.Channels == 3 {
			out[0], out[1], out[2] = byte(lo>>weightBits), byte(lo>>(lane+weightBits)), byte(third>>weightBits)
		} else {
			out[0] = byte(lo >> weightBits)
		}
		out = out[w.Channels:]
		x, atX, atY = x+1, atX+stepX, atY+stepY
	}
}

// near reports whether the true value may have another whole part.
func near(v uint64) bool { return (v+margin)&(one-1) < 2*margin }

// exact makes pixel x, y by Pillow's operations, in double precision and in their order.
func (w *warper) exact(x, y int) {
	out := w.Pix[(y*w.Width+x)*w.Channels:][:w.Channels]
	fx, fy := float64(x)+.5, float64(y)+.5
	atX := float64(w.m[0]*fx) + float64(w.m[1]*fy) + w.m[2]
	atY := float64(w.m[3]*fx) + float64(w.m[4]*fy) + w.m[5]
	if atX < 0 || atX >= float64(w.Width) || atY < 0 || atY >= float64(w.Height) {
		clear(out)
		return
	}
	atX, atY = atX-.5, atY-.5
	left, top := math.Floor(atX), math.Floor(atY)
	dx, dy := atX-left, atY-top
	x0, x1 := max(int(left), 0), min(int(left)+1, w.Width-1)
	y0, y1 := max(int(top), 0), min(int(top)+1, w.Height-1)
	above, below := w.src[y0*w.Width:], w.src[y1*w.Width:]
	mix := func(a, b, d float64) float64 { return a + float64((b-a)*d) }
	value := func(v uint64, c int) float64 { return float64(v >> (lane * c) & 0xff) }
	for c := range out {
		v1 := mix(value(above[x0], c), value(above[x1], c), dx)
		v2 := mix(value(below[x0], c), value(below[x1], c), dx)
		out[c] = byte(mix(v1, v2, dy))
	}
}

// warpNearest is warp that takes pixels whole, as Pillow's transform with AFFINE and NEAREST: with
// 16 bits behind the point.
func (p bitmap) warpNearest(m [6]float64) {
	size := p.Channels * p.Bytes
	src := append([]byte(nil), p.Pix...)
	clear(p.Pix)
	fix := func(v float64) int { return int(math.Floor(float64(v*65536) + .5)) }
	stepX, stepY := fix(m[0]), fix(m[3])
	beginX, beginY := fix(m[2]+float64(m[0]*.5)+float64(m[1]*.5)), fix(m[5]+float64(m[3]*.5)+float64(m[4]*.5))
	for y := range p.Height {
		atX, atY := beginX+y*fix(m[1]), beginY+y*fix(m[4])
		for x := range p.Width {
			if fromX, fromY := atX>>16, atY>>16; fromX >= 0 && fromX < p.Width && fromY >= 0 && fromY < p.Height {
				copy(p.Pix[(y*p.Width+x)*size:][:size], src[(fromY*p.Width+fromX)*size:])
			}
			atX, atY = atX+stepX, atY+stepY
		}
	}
}
