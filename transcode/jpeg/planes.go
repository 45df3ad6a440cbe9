package jpeg

import (
	"image"

	"github.com/pipefs/pipefs/transcode/jpeg/internal/kernel"
)

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
	size int
	v    int // blocks of an MCU, one above the other
	// blocks are those that the wanted pixels come from, and samples of the columns from
	// and to are those of a row: see limit.
	blocks   image.Rectangle
	from, to int
	// width and height of the component, in samples. There are more where they
	// are not whole blocks, but libjpeg does not let those take part in filters.
	width, height int

	samples []byte // of the columns of blocks
	stride  int
	rows    int // that fit into samples

	way          upsampling
	across, down int // pixels a sample, where it is repeated

	line   []byte // a row after upsampling
	ahead  int    // pixels of a row before the wanted ones
	lineOf int    // the row of samples it was made of, where it is repeated
}

// start makes the plane that of a component of sampling factors h and v in a picture of
// the given width and height in pixels, where maxH and maxV are the largest factors and a
// block makes at least size samples in each direction. It returns false where
// the samples of pixels are not a whole number.
func (p *plane) start(h, v, maxH, maxV, size, width, height int) bool {
	// libjpeg prefers a larger transform to upsampling.
	p.size = size
	for p.size < 8 && maxH*size%(h*p.size*2) == 0 && maxV*size%(v*p.size*2) == 0 {
		p.size *= 2
	}
	p.v = v
	p.width = ceilDiv(width*h*p.size, maxH*8)
	p.height = ceilDiv(height*v*p.size, maxV*8)

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
	p.lineOf = -1
	return true
}

// limit makes room for what the pixels of r come from. A filter takes samples around
// them, and three or more in a row: narrower components it leaves as they are.
func (p *plane) limit(r image.Rectangle) {
	p.from, p.to = r.Min.X/p.across, (r.Max.X-1)/p.across+1
	if p.way == upsampleH2V1 || p.way == upsampleH2V2 {
		p.from, p.to = max(0, p.from-2), min(p.width, p.to+2)
	}
	top, bottom := r.Min.Y/p.down, (r.Max.Y-1)/p.down+1
	if p.vertical() {
		// The row above the samples of an even pixel row, the one below those of an odd one.
		top, bottom = max(0, r.Min.Y-1)/2, min(p.height, r.Max.Y/2+1)
	}
	p.blocks = image.Rect(p.from/p.size, top/p.size, ceilDiv(p.to, p.size), ceilDiv(bottom, p.size))
	p.ahead = r.Min.X - p.from*p.across
	p.stride, p.rows = p.blocks.Dx()*p.size, 2*p.v*p.size
	p.samples = room(p.samples, p.stride*p.rows)
	if p.way != upsampleNone {
		p.line = room(p.line, (p.to-p.from)*p.across)
	}
}

// vertical reports whether a pixel depends on samples above and below it.
func (p *plane) vertical() bool { return p.way == upsampleH1V2 || p.way == upsampleH2V2 }

// put transforms the block at x, y, which must be one of blocks.
func (p *plane) put(x, y int, b *Block, nonzero uint64, quant *[64]uint16) {
	dst := p.samples[y*p.size%p.rows*p.stride+(x-p.blocks.Min.X)*p.size:]
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

// row returns one sample for each wanted pixel of row y of the picture, until it is
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
	return p.line[p.ahead:]
}

// at returns a row of samples. Rows above and below the picture are like the
// first and the last one.
func (p *plane) at(y int) []byte {
	y = max(0, min(y, p.height-1))
	return p.samples[y%p.rows*p.stride-p.blocks.Min.X*p.size+p.from:][:p.to-p.from]
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
