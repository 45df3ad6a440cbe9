package raster

import "encoding/binary"

// bitmap is pixels without padding: Channels is 1 or 3.
type bitmap struct {
	Pix                     []byte
	Width, Height, Channels int
	// Nearest: it is a mask. Its pixels are taken whole, and any number of channels will do, each of so
	// many Bytes. It can only be moved.
	Nearest bool
	Bytes   int
}

// table has the new value of each value.
type table [256]byte

func (t *table) apply(pix []byte) {
	for i, v := range pix {
		pix[i] = t[v]
	}
}

// applyEach changes each channel by a table of its own.
func (p bitmap) applyEach(t *[3]table) {
	if p.Channels == 1 {
		t[0].apply(p.Pix)
		return
	}
	for pix := p.Pix; len(pix) >= 3; pix = pix[3:] {
		pix[0], pix[1], pix[2] = t[0][pix[0]], t[1][pix[1]], t[2][pix[2]]
	}
}

// blend is Pillow's: float32 throughout. The conversions keep the compiler from fusing.
func blend(a, b int, factor float32) byte {
	return toByte(float32(a) + float32(factor*float32(b-a)))
}

// toByte cuts off, and clips.
func toByte(v float32) byte {
	switch {
	case v <= 0:
		return 0
	case v >= 255:
		return 255
	}
	return byte(v)
}

// Brightness blends with black, as ImageEnhance.Brightness.
func (p bitmap) Brightness(factor float32) { p.blendWith(0, factor) }

// Contrast blends with the mean of the grey picture, as ImageEnhance.Contrast.
func (p bitmap) Contrast(factor float32) {
	sum := uint64(0)
	if p.Channels == 1 {
		for _, v := range p.Pix {
			sum += uint64(v)
		}
	} else {
		for pix := p.Pix; len(pix) >= 3; pix = pix[3:] {
			sum += uint64(luma(pix[0], pix[1], pix[2]))
		}
	}
	p.blendWith(int(float64(sum)/float64(p.Width*p.Height)+.5), factor)
}

func (p bitmap) blendWith(value int, factor float32) {
	var t table
	for v := range t {
		t[v] = blend(value, v, factor)
	}
	t.apply(p.Pix)
}

// luma is Pillow's convert('L').
func luma(r, g, b byte) uint32 {
	return (uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 1<<15) >> 16
}

// Posterize keeps the upper bits, as ImageOps.posterize.
func (p bitmap) Posterize(bits int) {
	mask := byte(0xff) << (8 - bits)
	pix, wide := p.Pix, uint64(mask)*0x0101010101010101
	for ; len(pix) >= 8; pix = pix[8:] {
		binary.LittleEndian.PutUint64(pix, binary.LittleEndian.Uint64(pix)&wide)
	}
	for i, v := range pix {
		pix[i] = v & mask
	}
}

// Solarize inverts values from a threshold on, as ImageOps.solarize.
func (p bitmap) Solarize(threshold float64) {
	var t table
	for v := range t {
		if t[v] = byte(v); float64(v) >= threshold {
			t[v] = ^t[v]
		}
	}
	t.apply(p.Pix)
}

// Invert is ImageOps.invert.
func (p bitmap) Invert() {
	pix := p.Pix
	for ; len(pix) >= 8; pix = pix[8:] {
		binary.LittleEndian.PutUint64(pix, ^binary.LittleEndian.Uint64(pix))
	}
	for i, v := range pix {
		pix[i] = ^v
	}
}

// histograms counts the values of each channel. Neighbours are mostly alike: they are counted
// apart, so that no count waits for the one before it.
func (p bitmap) histograms() (h [3][256]uint32) {
	var odd [3][256]uint32
	pix := p.Pix
	if p.Channels == 1 {
		for ; len(pix) >= 2; pix = pix[2:] {
			h[0][pix[0]]++
			odd[0][pix[1]]++
		}
	} else {
		for ; len(pix) >= 6; pix = pix[6:] {
			h[0][pix[0]]++
			h[1][pix[1]]++
			h[2][pix[2]]++
			odd[0][pix[3]]++
			odd[1][pix[4]]++
			odd[2][pix[5]]++
		}
	}
	for c, v := range pix {
		h[c][v]++
	}
	for c := range h {
		for v := range h[c] {
			h[c][v] += odd[c][v]
		}
	}
	return h
}

// same are tables that change nothing.
func same() (t [3]table) {
	for v := range 256 {
		t[0][v], t[1][v], t[2][v] = byte(v), byte(v), byte(v)
	}
	return t
}

// Autocontrast stretches each channel to all values, as ImageOps.autocontrast.
func (p bitmap) Autocontrast() {
	h, t := p.histograms(), same()
	for c := range p.Channels {
		t[c].stretch(&h[c])
	}
	p.applyEach(&t)
}

func (t *table) stretch(h *[256]uint32) {
	lo, hi := 0, 255
	for lo < 255 && h[lo] == 0 {
		lo++
	}
	for hi > 0 && h[hi] == 0 {
		hi--
	}
	if hi <= lo {
		return
	}
	scale := 255 / float64(hi-lo)
	offset := float64(float64(-lo) * scale)
	for v := range t {
		t[v] = byte(max(0, min(255, float64(float64(v)*scale)+offset)))
	}
}

// Equalize makes all values of a channel as frequent, as ImageOps.equalize.
func (p bitmap) Equalize() {
	h, t := p.histograms(), same()
	for c := range p.Channels {
		t[c].equalize(&h[c])
	}
	p.applyEach(&t)
}

func (t *table) equalize(h *[256]uint32) {
	sum, last, kinds := uint32(0), uint32(0), 0
	for _, n := range h {
		if n > 0 {
			sum, last, kinds = sum+n, n, kinds+1
		}
	}
	step := (sum - last) / 255
	if kinds <= 1 || step == 0 {
		return
	}
	n := step / 2
	for v := range t {
		t[v] = byte(min(n/step, 255))
		n += h[v]
	}
}
