package raster

import (
	"math"
	"sync"
)

// clipped is a value from -clipBelow on, clipped to a byte.
var clipped = func() (t [2048]byte) {
	for i := range t {
		t[i] = byte(max(0, min(255, i-clipBelow)))
	}
	return t
}()

const clipBelow = 1024

// blender has what a blend adds to its first value, by the difference and 255. It is exact
// where float32 addition cannot carry into the whole numbers: for nearly all factors.
type blender struct {
	add   [512]int32
	exact bool
}

func (b *blender) set(factor float32) {
	b.exact = factor >= 0 && factor <= 3
	for d := -255; d <= 255 && b.exact; d++ {
		v := float64(float32(factor * float32(d)))
		whole := math.Floor(v)
		// Sums that count are below 256, and have 16 bits after the point, or more.
		b.exact = v-whole < 1-1.0/(1<<16)
		b.add[d+255] = int32(whole) + clipBelow
	}
}

// Saturation blends with the grey picture, as ImageEnhance.Color.
func (p bitmap) Saturation(factor float32) {
	if p.Channels == 1 {
		return // grey is what it is blended with
	}
	var b blender
	b.set(factor)
	for pix := p.Pix; len(pix) >= 3; pix = pix[3:] {
		l := int32(luma(pix[0], pix[1], pix[2]))
		if b.exact {
			pix[0] = clipped[(l+b.add[(int32(pix[0])-l+255)&511])&2047]
			pix[1] = clipped[(l+b.add[(int32(pix[1])-l+255)&511])&2047]
			pix[2] = clipped[(l+b.add[(int32(pix[2])-l+255)&511])&2047]
			continue
		}
		for c, v := range pix[:3] {
			pix[c] = blend(int(l), int(v), factor)
		}
	}
}

// Grey makes all channels the grey picture, as RandomGrayscale.
func (p bitmap) Grey() {
	if p.Channels == 1 {
		return
	}
	for pix := p.Pix; len(pix) >= 3; pix = pix[3:] {
		l := byte(luma(pix[0], pix[1], pix[2]))
		pix[0], pix[1], pix[2] = l, l, l
	}
}

// hsv are Pillow's conversions between RGB and HSV.
type hsv struct {
	// hue by the order of the colours, the difference of the largest and the smallest one, and
	// that of the largest and the middle one.
	hue [8 << 16]byte
	// saturation by the largest colour and that difference.
	saturation [1 << 16]byte
	sector     [256]uint8 // of a hue, from 0 to 5
	// part of a hue in its sector, which counts down in odd ones.
	part [256]float64
	of   [256]float32 // saturation as a part of 1
}

// The orders of the colours, the largest one first.
const (
	rgb = iota
	grb
	gbr
	bgr
	brg
	rbg
)

var hsvTables = sync.OnceValue(func() *hsv {
	t := new(hsv)
	for most := range 256 {
		for cr := 1; cr <= most; cr++ {
			t.saturation[most<<8|cr] = byte(float64(float32(cr)/float32(most)) * 255)
		}
	}
	for cr := 1; cr < 256; cr++ {
		for d := 0; d <= cr; d++ {
			q := float32(d) / float32(cr)
			for order, h := range [...]float32{
				rgb: 1 - q,
				grb: float32(2 + float64(q) - 1),
				gbr: float32(2 + 1.0 - float64(q)),
				bgr: float32(4 + float64(q) - 1),
				brg: float32(4 + 1.0 - float64(q)),
				rbg: q - 1,
			} {
				turn := float64(h)/6 + 1
				if turn >= 1 {
					turn--
				}
				t.hue[order<<16|cr<<8|d] = byte(float64(float32(turn)) * 255)
			}
		}
	}
	for v := range 256 {
		at := float64(float32(v)) * 6 / 255
		t.sector[v] = uint8(int(at) % 6)
		f := float32(at - float64(int(at)))
		if t.part[v] = float64(f); int(at)%2 == 0 {
			t.part[v] = 1 - float64(f)
		}
		t.of[v] = float32(float64(v) / 255)
	}
	return t
})

// Hue turns the hues by so many 255ths of a circle, modulo 256, through Pillow's HSV, as adjust_hue.
func (p bitmap) Hue(turn int) {
	if p.Channels == 1 {
		return
	}
	t := hsvTables()
	for pix := p.Pix; len(pix) >= 3; pix = pix[3:] {
		r, g, b := pix[0], pix[1], pix[2]
		var most, middle, least byte
		var order int
		switch {
		case r >= g && r >= b:
			most, middle, least, order = r, g, b, rgb
			if g < b {
				middle, least, order = b, g, rbg
			}
		case g >= b:
			most, middle, least, order = g, r, b, grb
			if r < b {
				middle, least, order = b, r, gbr
			}
		default:
			most, middle, least, order = b, g, r, bgr
			if g < r {
				middle, least, order = r, g, brg
			}
		}
		if most == least {
			continue
		}
		cr := int(most) - int(least)
		h := byte(int(t.hue[order<<16|cr<<8|(int(most)-int(middle))]) + turn)
		s := t.of[t.saturation[int(most)<<8|cr]]
		v, part := float64(most), t.part[h]
		sector := t.sector[h]
		share := float64(s) * part
		if sector&1 == 1 { // Pillow has this product in float32
			share = float64(float32(share))
		}
		// The colours that are not the largest one: the smallest one, and the other one.
		low := byte(float64(v*(1-float64(s))) + .5)
		mid := byte(float64(v*(1-share)) + .5)
		switch sector {
		case 0:
			pix[0], pix[1], pix[2] = most, mid, low
		case 1:
			pix[0], pix[1], pix[2] = mid, most, low
		case 2:
			pix[0], pix[1], pix[2] = low, most, mid
		case 3:
			pix[0], pix[1], pix[2] = low, mid, most
		case 4:
			pix[0], pix[1], pix[2] = mid, low, most
		default:
			pix[0], pix[1], pix[2] = most, low, mid
		}
	}
}
