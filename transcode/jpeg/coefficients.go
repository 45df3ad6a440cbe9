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
	// RestartInterval is that of the file's first scan in MCUs, 0 for none.
	RestartInterval int
	// Scans is the number of scans the file had.
	Scans int
	// Skipped is the number of bytes before EOI that belonged to nothing: left
	// over after the last MCU of a scan or restart interval, or found between
	// segments. libjpeg warns of them and skips them.
	Skipped int
	// Trailing is the number of bytes after EOI.
	Trailing int

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

// check reports what is wrong with c where it does not come from a decoder.
func (c *Coefficients) check() error {
	n := len(c.Components)
	if n < 1 || n > maxComponents {
		return unsupported(0, "%d components", n)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > 0xFFFF || c.Height > 0xFFFF {
		return internal("picture of %d×%d pixels", c.Width, c.Height)
	}
	size := 0
	for i := range c.Components {
		p := &c.Components[i]
		if p.H < 1 || p.H > 4 || p.V < 1 || p.V > 4 || p.Table < 0 || p.Table > 3 {
			return internal("component %d: %+v", i, p.ComponentInfo)
		}
		size += p.H * p.V
		for j := range i {
			if q := &c.Components[j]; q.ID == p.ID || q.Table == p.Table && q.Quant != p.Quant {
				return internal("components %d and %d have the same id, or one table with two contents", j, i)
			}
		}
	}
	if n > 1 && size > maxMCU {
		return internal("MCU of %d blocks", size)
	}
	h, v := c.maxFactors()
	for i := range c.Components {
		p := &c.Components[i]
		if p.Wide != ceilDiv(c.Width*p.H, 8*h) || p.High != ceilDiv(c.Height*p.V, 8*v) || p.Stride < p.Wide ||
			len(p.Blocks) < p.Stride*p.High || len(p.Nonzero) < p.Stride*p.High {
			return internal("component %d: %d×%d blocks, %d a row, %d in all", i, p.Wide, p.High, p.Stride, len(p.Blocks))
		}
	}
	for _, s := range c.Segments {
		if len(s.Data) > 0xFFFF-2 {
			return internal("segment of %d bytes", len(s.Data))
		}
	}
	return nil
}
