package jpeg

// Block is the 64 coefficients of 8×8 samples, quantised, in zigzag order.
type Block [64]int16

// Component is one component of a picture as coefficients.
type Component struct {
	ComponentInfo
	// Quant is the quantisation table, in zigzag order: a coefficient times its
	// entry is the value of the transform.
	Quant [64]uint16
	// Wide and High are the numbers of blocks that hold samples of the picture.
	Wide, High int
	// Stride and Rows are the numbers of blocks that are kept: Wide and High,
	// rounded up to whole MCUs where the picture has several components. What the
	// blocks beyond Wide and High hold is the original encoder's own business.
	Stride, Rows int
	// Blocks are Rows rows of Stride blocks, top down and from left to right.
	Blocks []Block
	// Nonzero has a bit set for each AC coefficient of the same block that is not
	// zero: bit k for coefficient k. Bit 0 is always clear.
	Nonzero []uint64

	// missing has, for the first coefficients, the lowest bit that the scans have
	// delivered, or -1: 0 where nothing is missing.
	missing [smoothed]int8
	// before is what missing was before the component's last scan; of damaged files
	// only.
	before [smoothed]int8
}

// Coefficients is a picture as quantised coefficients, and the metadata around
// it: all that a JPEG file says, but for how it was entropy-coded.
type Coefficients struct {
	Width, Height int
	// Coding of the file that the coefficients come from.
	Coding     Coding
	Model      ColorModel
	Components []Component
	// Segments are the COM and APPn segments in the order of the file, those
	// between scans included.
	Segments []Segment
	JFIF     JFIF
	// Scans is the number of scans the file had.
	Scans int

	// doubtful is the first row of MCUs, of those of all components, that the last
	// scan of a damaged file did not reach; 0 where the file is whole.
	doubtful int
}

// maxFactors returns the largest sampling factors of all components.
func (c *Coefficients) maxFactors() (h, v int) {
	for i := range c.Components {
		h = max(h, c.Components[i].H)
		v = max(v, c.Components[i].V)
	}
	return h, v
}

// mcus returns how many MCUs an interleaved scan of all components has: T.81
// A.2.3 and A.2.4.
func (c *Coefficients) mcus() (wide, high int) {
	h, v := c.maxFactors()
	return ceilDiv(c.Width, 8*h), ceilDiv(c.Height, 8*v)
}

// layout sets the block counts of all components, from their sampling factors,
// and returns the total number of blocks to keep.
func (c *Coefficients) layout() (blocks int64) {
	h, v := c.maxFactors()
	mw, mh := c.mcus()
	for i := range c.Components {
		p := &c.Components[i]
		p.Wide = ceilDiv(c.Width*p.H, 8*h)
		p.High = ceilDiv(c.Height*p.V, 8*v)
		p.Stride, p.Rows = p.Wide, p.High
		if len(c.Components) > 1 {
			p.Stride, p.Rows = mw*p.H, mh*p.V
		}
		blocks += int64(p.Stride) * int64(p.Rows)
	}
	return blocks
}

// CoefficientBytes is how much memory the coefficients of a picture take.
func (h *Header) CoefficientBytes() int64 {
	c := Coefficients{Width: h.Width, Height: h.Height}
	for _, info := range h.Components {
		c.Components = append(c.Components, Component{ComponentInfo: info})
	}
	return 136 * c.layout() // with Nonzero
}

// OneScan reports whether the first scan of a whole file has all of the picture: the pixels are made while it
// is decoded, without coefficients.
func (h *Header) OneScan(src []byte) bool {
	n := h.ScanOffset + 4 // behind marker and length
	return h.Coding != CodingProgressive && n < len(src) && int(src[n]) == len(h.Components)
}

// alloc makes room for all blocks; it uses what is there where that is large
// enough. The blocks are cleared if zero is set.
func (c *Coefficients) alloc(zero bool) {
	for i := range c.Components {
		p := &c.Components[i]
		n := p.Stride * p.Rows
		if cap(p.Blocks) < n || cap(p.Nonzero) < n {
			p.Blocks, p.Nonzero = make([]Block, n), make([]uint64, n)
			continue
		}
		p.Blocks, p.Nonzero = p.Blocks[:n], p.Nonzero[:n]
		if zero {
			clear(p.Blocks)
			clear(p.Nonzero)
		}
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
