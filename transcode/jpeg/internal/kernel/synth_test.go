package kernel

import "math/bits"

// picture is a JPEG file to be: its coefficients are chosen, not computed from
// pixels, so that any can be had.
type picture struct {
	width, height int
	adobe         int // the transform of an Adobe segment, -1 for none
	parts         []part
}

// part is one component.
type part struct {
	h, v   int
	quant  [64]uint16 // zigzag
	wide   int        // blocks in a row, whole MCUs
	high   int
	blocks [][64]int16 // zigzag
}

// newPicture returns a picture with room for the blocks of components with the
// sampling factors given, such as "22", "11", "11".
func newPicture(width, height, adobe int, factors ...string) *picture {
	p := &picture{width: width, height: height, adobe: adobe}
	for _, f := range factors {
		p.parts = append(p.parts, part{h: int(f[0] - '0'), v: int(f[1] - '0')})
	}
	maxH, maxV := p.factors()
	for i := range p.parts {
		c := &p.parts[i]
		c.wide = (width + 8*maxH - 1) / (8 * maxH) * c.h
		c.high = (height + 8*maxV - 1) / (8 * maxV) * c.v
		c.blocks = make([][64]int16, c.wide*c.high)
	}
	return p
}

func (p *picture) factors() (h, v int) {
	for _, c := range p.parts {
		h, v = max(h, c.h), max(v, c.v)
	}
	return h, v
}

// encode writes a baseline file, with coefficients of up to 15 bits and
// differences of DC coefficients of up to 15 bits.
func (p *picture) encode() []byte {
	out := []byte{0xff, 0xd8}
	segment := func(marker byte, data ...byte) {
		n := len(data) + 2
		out = append(out, 0xff, marker, byte(n>>8), byte(n))
		out = append(out, data...)
	}
	if p.adobe >= 0 {
		segment(0xee, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, byte(p.adobe))
	}
	sof := []byte{8, byte(p.height >> 8), byte(p.height), byte(p.width >> 8), byte(p.width), byte(len(p.parts))}
	sos := []byte{byte(len(p.parts))}
	for i, c := range p.parts {
		table := []byte{0x10 | byte(i)}
		for _, q := range c.quant {
			table = append(table, byte(q>>8), byte(q))
		}
		segment(0xdb, table...)
		sof = append(sof, byte(i+1), byte(c.h<<4|c.v), byte(i))
		sos = append(sos, byte(i+1), 0)
	}
	segment(0xc0, sof...)
	// All symbols get codes of about the same length: of 5 bits for DC, of 8 bits
	// for the first 128 of AC and of 9 for the others.
	dc := append([]byte{0, 0, 0, 0, 0, 0, 16}, make([]byte, 10)...)
	ac := append([]byte{0x10, 0, 0, 0, 0, 0, 0, 0, 128, 128}, make([]byte, 7)...)
	for i := range 256 {
		if i < 16 {
			dc = append(dc, byte(i))
		}
		ac = append(ac, byte(i))
	}
	segment(0xc4, dc[:17+16]...)
	segment(0xc4, ac...)
	segment(0xda, append(sos, 0, 63, 0)...)

	var acc uint64
	var n int
	put := func(v uint32, width int) {
		acc, n = acc<<width|uint64(v)&(1<<width-1), n+width
		for n >= 8 {
			n -= 8
			b := byte(acc >> n)
			out = append(out, b)
			if b == 0xff {
				out = append(out, 0)
			}
		}
	}
	value := func(v int) (size int, extra uint32) {
		if v < 0 {
			size = bits.Len(uint(-v))
			return size, uint32(v - 1)
		}
		return bits.Len(uint(v)), uint32(v)
	}
	acSymbol := func(s int) {
		if s < 128 {
			put(uint32(s), 8)
		} else {
			put(uint32(s)+128, 9)
		}
	}
	last := make([]int, len(p.parts))
	block := func(c int, b *[64]int16) {
		size, extra := value(int(b[0]) - last[c])
		last[c] = int(b[0])
		put(uint32(size), 6)
		put(extra, size)
		run := 0
		for _, v := range b[1:] {
			if v == 0 {
				run++
				continue
			}
			for ; run > 15; run -= 16 {
				acSymbol(0xf0)
			}
			size, extra := value(int(v))
			acSymbol(run<<4 | size)
			put(extra, size)
			run = 0
		}
		if run > 0 {
			acSymbol(0)
		}
	}
	maxH, maxV := p.factors()
	for my := range (p.height + 8*maxV - 1) / (8 * maxV) {
		for mx := range (p.width + 8*maxH - 1) / (8 * maxH) {
			for i := range p.parts {
				c := &p.parts[i]
				for y := range c.v {
					for x := range c.h {
						block(i, &c.blocks[(my*c.v+y)*c.wide+mx*c.h+x])
					}
				}
			}
		}
	}
	put(1<<7-1, 7)
	return append(out, 0xff, 0xd9)
}

// nonzero returns the bitmap of a block.
func nonzero(b *[64]int16) (n uint64) {
	for k, v := range b {
		if v != 0 && k > 0 {
			n |= 1 << k
		}
	}
	return n
}

// plane is the samples of a component.
type plane struct {
	pix           []byte
	stride        int
	width, height int // those that the picture has
}

func (p *plane) row(y int) []byte {
	y = max(0, min(y, p.height-1))
	return p.pix[y*p.stride : y*p.stride+p.width]
}

// decode makes samples of all components, size×size of each block, with the
// kernels.
func (p *picture) decode(size int) []plane {
	var planes []plane
	maxH, maxV := p.factors()
	for i := range p.parts {
		c := &p.parts[i]
		d := plane{stride: c.wide * size}
		d.width = (p.width*c.h*size + 8*maxH - 1) / (8 * maxH)
		d.height = (p.height*c.v*size + 8*maxV - 1) / (8 * maxV)
		d.pix = make([]byte, d.stride*c.high*size)
		for j := range c.blocks {
			b := &c.blocks[j]
			dst := d.pix[j/c.wide*size*d.stride+j%c.wide*size:]
			switch size {
			case 8:
				Block8(dst, d.stride, b, nonzero(b), &c.quant)
			case 4:
				Block4(dst, d.stride, b, nonzero(b), &c.quant)
			case 2:
				Block2(dst, d.stride, b, nonzero(b), &c.quant)
			default:
				dst[0] = IDCT1(&[64]int16{b[0] * int16(c.quant[0])})
			}
		}
		planes = append(planes, d)
	}
	return planes
}

// upsampled returns row y of a component at full size, in buf.
func (p *picture) upsampled(buf []byte, i int, d *plane, y int) []byte {
	maxH, maxV := p.factors()
	c := &p.parts[i]
	far := y/2 - 1 + y%2*2
	switch {
	case c.h == maxH && c.v == maxV:
		return d.row(y)
	case c.h == maxH:
		UpsampleH1V2(buf, d.row(y/2), d.row(far), y%2 == 1)
	case c.v == maxV:
		UpsampleH2V1(buf, d.row(y))
	default:
		UpsampleH2V2(buf, d.row(y/2), d.row(far))
	}
	return buf
}
