package jpeg

import "github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"

// upsampling is how the samples of a component become as many as the picture has
// pixels.
type upsampling uint8

const (
	upsampleNone upsampling = iota
	upsampleH2V1            // the fancy ones, each with a triangle filter
	upsampleH1V2
	upsampleH2V2
	upsampleRepeat
)

// plane is the samples of one component, of which it holds those of two rows of
// MCUs: a filter looks one row of samples up and down.
type plane struct {
	// size is how many samples a block makes in each direction: 8, 4, 2 or 1.
	size       int
	v          int // blocks of an MCU, one above the other
	wide, high int // in blocks
	// width and height of the component, in samples. There are more where they
	// are not whole blocks, but libjpeg does not let those take part in filters.
	width, height int

	samples []byte
	stride  int
	rows    int // that fit into samples

	way          upsampling
	across, down int // pixels a sample, where it is repeated

	line   []byte // a row after upsampling
	lineOf int    // the row of samples it was made of, where it is repeated
}

// start makes the plane that of component p in a picture of the given width and
// height in pixels, where maxH and maxV are the largest sampling factors and a
// block makes at least size samples in each direction. It returns false where
// the samples of pixels are not a whole number.
func (p *plane) start(c *Component, h, v, maxH, maxV, size, width, height int) bool {
	// libjpeg prefers a larger transform to upsampling.
	p.size = size
	for p.size < 8 && maxH*size%(h*p.size*2) == 0 && maxV*size%(v*p.size*2) == 0 {
		p.size *= 2
	}
	p.v, p.wide, p.high = v, c.Wide, c.High
	p.width = ceilDiv(width*h*p.size, maxH*8)
	p.height = ceilDiv(height*v*p.size, maxV*8)
	p.stride, p.rows = p.wide*p.size, 2*v*p.size
	p.samples = room(p.samples, p.stride*p.rows)

	// So many samples become maxH×maxV pixels.
	inH, inV := h*p.size/size, v*p.size/size
	if maxH%inH != 0 || maxV%inV != 0 {
		return false
	}
	p.across, p.down = maxH/inH, maxV/inV
	// At an eighth libjpeg has no rows above and below.
	fancy, wide := size > 1, p.width > 2
	switch {
	case p.across == 1 && p.down == 1:
		p.way = upsampleNone
	case p.across == 2 && p.down == 1 && fancy && wide:
		p.way = upsampleH2V1
	case p.across == 1 && p.down == 2 && fancy:
		p.way = upsampleH1V2
	case p.across == 2 && p.down == 2 && fancy && wide:
		p.way = upsampleH2V2
	default:
		p.way = upsampleRepeat
	}
	if p.way != upsampleNone {
		p.line = room(p.line, p.width*p.across)
	}
	p.lineOf = -1
	return true
}

// vertical reports whether a pixel depends on samples above and below it.
func (p *plane) vertical() bool { return p.way == upsampleH1V2 || p.way == upsampleH2V2 }

// put transforms the block at x, y, which must be one that counts.
func (p *plane) put(x, y int, b *Block, nonzero uint64, quant *[64]uint16) {
	dst := p.samples[y*p.size%p.rows*p.stride+x*p.size:]
	switch p.size {
	case 8:
		kernel.Block8(dst, p.stride, (*[64]int16)(b), nonzero, quant)
	case 4:
		kernel.Block4(dst, p.stride, (*[64]int16)(b), nonzero, quant)
	case 2:
		kernel.Block2(dst, p.stride, (*[64]int16)(b), nonzero, quant)
	default:
		dst[0] = kernel.IDCT1(&[64]int16{b[0] * int16(quant[0])})
	}
}

// row returns one sample for each pixel of row y of the picture, until it is
// called again.
func (p *plane) row(y int) []byte {
	switch p.way {
	case upsampleNone:
		return p.at(y)
	case upsampleH2V1:
		kernel.UpsampleH2V1(p.line, p.at(y))
	case upsampleH1V2:
		kernel.UpsampleH1V2(p.line, p.at(y/2), p.at(y/2+y%2*2-1), y%2 == 1)
	case upsampleH2V2:
		kernel.UpsampleH2V2(p.line, p.at(y/2), p.at(y/2+y%2*2-1))
	default:
		if p.lineOf != y/p.down {
			p.lineOf = y / p.down
			repeat(p.line, p.at(p.lineOf), p.across)
		}
	}
	return p.line
}

// at returns a row of samples. Rows above and below the picture are like the
// first and the last one.
func (p *plane) at(y int) []byte {
	y = max(0, min(y, p.height-1))
	return p.samples[y%p.rows*p.stride:][:p.width]
}

func repeat(dst, src []byte, times int) {
	for _, v := range src {
		for i := range times {
			dst[i] = v
		}
		dst = dst[times:]
	}
}

// room returns a slice of n bytes, b if it is large enough.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
