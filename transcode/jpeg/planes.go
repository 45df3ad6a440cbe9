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

// limit takes memory for what the pixels of r come from. A filter takes samples around
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
	p.samples = resized(p.samples, p.stride*p.rows)
	if p.way != upsampleNone {
		p.line = resized(p.line, (p.to-p.from)*p.across)
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

// resized returns a slice of n bytes, b if it is large enough.
func resized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// smoothed is how many coefficients of a block take part in smoothing.
const smoothed = 10

// smoothing reports whether libjpeg smooths the picture across blocks, which
// makes previews of progressive files less blocky: T.81 K.8 has the idea. It does
// so as long as any of the first AC coefficients of any component is not known to
// the last bit.
func (c *Coefficients) smoothing() bool {
	useful := false
	for i := range c.Components {
		p := &c.Components[i]
		if p.missing[0] < 0 || c.Coding != CodingProgressive {
			return false
		}
		for k, bits := range p.missing {
			if p.Quant[k] == 0 {
				return false
			}
			useful = useful || k > 0 && bits != 0
		}
	}
	return useful
}

// smoother estimates low AC coefficients from the DC coefficients of a block and
// of the two blocks around it in each direction: libjpeg-turbo's algorithm, as of
// version 2.1.
type smoother struct {
	rows  [5][]Block // from two above to two below
	masks []uint64
	dc    [5][5]int32
	// missing is Component.missing, or before: only what may still change is
	// estimated.
	missing *[smoothed]int8
	quant   *[64]uint16
	dcOnly  bool // no AC coefficient is known at all: better estimates, of more

	block Block
}

// start makes s ready for row y of the blocks of component p, of which so much is
// missing. mcus is the number of rows of MCUs of the picture.
func (s *smoother) start(p *Component, missing *[smoothed]int8, y, mcus int) {
	s.missing, s.quant = missing, &p.Quant
	s.dcOnly = true
	for _, bits := range missing[1:] {
		s.dcOnly = s.dcOnly && bits < 0
	}
	// libjpeg-turbo 2.1 does not look two rows up from the second row of MCUs, nor
	// two down from the last but one. Version 3.0.1 changed that, and how it
	// begins in pictures of two blocks a row.
	mcu, inMCU := y/p.V, y%p.V
	up2, up1, down1, down2 := y, y, y, y
	if y > 0 {
		up2, up1 = y-1, y-1
	}
	if inMCU > 1 || mcu > 1 {
		up2 = y - 2
	}
	if y < p.High-1 {
		down1, down2 = y+1, y+1
	}
	if mcu < mcus-2 || y < p.High-2 && (mcu == mcus-1 || inMCU < p.V-2) {
		down2 = y + 2
	}
	for i, row := range [5]int{up2, up1, y, down1, down2} {
		s.rows[i] = p.Blocks[row*p.Stride:][:p.Wide]
		dc := int32(s.rows[i][0][0])
		s.dc[i] = [5]int32{dc, dc, dc, dc, dc}
	}
	s.masks = p.Nonzero[y*p.Stride:][:p.Wide]
}

// next returns the block at x with its estimates, and which AC coefficients are
// not zero. It must be called for all blocks of a row in their order.
func (s *smoother) next(x int) (b *Block, nonzero uint64) {
	last := len(s.masks) - 1
	d := &s.dc
	for i := range d {
		if x > 0 {
			copy(d[i][:4], d[i][1:])
		} else if last > 0 {
			d[i][3] = int32(s.rows[i][1][0])
		}
		if x+1 < last {
			d[i][4] = int32(s.rows[i][x+2][0])
		}
	}
	s.block, nonzero = s.rows[2][x], s.masks[x]
	if s.dcOnly {
		return &s.block, s.fromDC(nonzero)
	}
	s.set(1, -7*d[2][0]+50*d[2][1]-50*d[2][3]+7*d[2][4], &nonzero)
	s.set(2, -7*d[0][2]+50*d[1][2]-50*d[3][2]+7*d[4][2], &nonzero)
	s.set(3, -d[0][2]+13*d[1][2]-24*d[2][2]+13*d[3][2]-d[4][2], &nonzero)
	s.set(4, d[1][4]+d[3][0]-10*d[3][1]+10*d[3][3]-d[0][1]-d[3][4]+d[4][1]-
		d[4][3]+d[0][3]-d[1][0]+10*d[1][1]-10*d[1][3], &nonzero)
	s.set(5, -d[2][0]+13*d[2][1]-24*d[2][2]+13*d[2][3]-d[2][4], &nonzero)
	return &s.block, nonzero
}

// fromDC estimates coefficients where DC is all that is known, and smooths DC.
func (s *smoother) fromDC(nonzero uint64) uint64 {
	a, b, c, d, e := &s.dc[0], &s.dc[1], &s.dc[2], &s.dc[3], &s.dc[4]
	s.set(1, -a[0]-a[1]+a[3]+a[4]-3*b[0]+13*b[1]-13*b[3]+3*b[4]-3*c[0]+38*c[1]-38*c[3]+
		3*c[4]-3*d[0]+13*d[1]-13*d[3]+3*d[4]-e[0]-e[1]+e[3]+e[4], &nonzero)
	s.set(2, -a[0]-3*a[1]-3*a[2]-3*a[3]-a[4]-b[0]+13*b[1]+38*b[2]+13*b[3]-b[4]+
		d[0]-13*d[1]-38*d[2]-13*d[3]+d[4]+e[0]+3*e[1]+3*e[2]+3*e[3]+e[4], &nonzero)
	s.set(3, a[2]+2*b[1]+7*b[2]+2*b[3]-5*c[1]-14*c[2]-5*c[3]+2*d[1]+7*d[2]+2*d[3]+e[2], &nonzero)
	s.set(4, -a[0]+a[4]+9*b[1]-9*b[3]-9*d[1]+9*d[3]+e[0]-e[4], &nonzero)
	s.set(5, 2*b[1]-5*b[2]+2*b[3]+c[0]+7*c[1]-14*c[2]+7*c[3]+c[4]+2*d[1]-5*d[2]+2*d[3], &nonzero)
	s.set(6, b[1]-b[3]+2*c[1]-2*c[3]+d[1]-d[3], &nonzero)
	s.set(7, b[1]-3*b[2]+b[3]-d[1]+3*d[2]-d[3], &nonzero)
	s.set(8, b[1]-b[3]-3*c[1]+3*c[3]+d[1]-d[3], &nonzero)
	s.set(9, b[1]+2*b[2]+b[3]-d[1]-2*d[2]-d[3], &nonzero)
	sum := -2*a[0] - 6*a[1] - 8*a[2] - 6*a[3] - 2*a[4] -
		6*b[0] + 6*b[1] + 42*b[2] + 6*b[3] - 6*b[4] -
		8*c[0] + 42*c[1] + 152*c[2] + 42*c[3] - 8*c[4] -
		6*d[0] + 6*d[1] + 42*d[2] + 6*d[3] - 6*d[4] -
		2*e[0] - 6*e[1] - 8*e[2] - 6*e[3] - 2*e[4]
	// Rounded to the nearest, halves away from zero.
	sign := sum >> 31
	s.block[0] = int16(((sum^sign)-sign+128)>>8 ^ sign - sign)
	return nonzero
}

// set gives coefficient k its estimate, unless it is known. The estimate is sum,
// a difference of DC coefficients, in units of the coefficient and 8 bits after
// the point.
func (s *smoother) set(k int, sum int32, nonzero *uint64) {
	bits := s.missing[k]
	if bits == 0 || s.block[k] != 0 {
		return
	}
	sign := int64(sum) >> 63
	size := (int64(sum) ^ sign - sign) * int64(s.quant[0])
	unit := int64(s.quant[k])
	if size < unit<<7 {
		return
	}
	size = (size + unit<<7) / (unit << 8)
	if bits > 0 {
		// More would have been in the bits that are known.
		size = min(size, 1<<bits-1)
	}
	if s.block[k] = int16(size ^ sign - sign); s.block[k] != 0 {
		*nonzero |= 1 << k
	}
}
