package v1

// A plane has room for a patch. A row of zeros is before its first row, and a zero to the left
// of each row. A function that fills a row writes a zero behind it.
const (
	// margin keeps rows on cache lines of their own.
	margin = 64
	// stride is the distance of rows: a margin, 255 samples or a block more, and a
	// zero at least before the next margin.
	stride = margin + 256 + margin
)

// planeLen is the size of a plane for patches of a height.
func planeLen(height int) int { return (1 + height) * stride }

// planeAt is the position of a sample of the patch.
func planeAt(x, y int) int { return (1+y)*stride + margin + x }

// place moves a patch of one channel from its plane to the picture.
func (d *decoder) place(plane []byte, x, y, c, w, h int) {
	for j := range h {
		row, at := plane[planeAt(0, j):][:w], d.dst.At(x, y+j, c)
		if d.dst.Pixel == 1 {
			copy(d.dst.Pix[at:], row)
			continue
		}
		for _, v := range row {
			d.dst.Pix[at] = v
			at += d.dst.Pixel
		}
	}
}

// interleave moves the patches of three channels to pixels of three bytes.
func (d *decoder) interleave(x, y, w, h int) {
	// In the order of memory, which for BGR is the reverse.
	first, middle, last := 0, 1, 2
	switch d.dst.Channel {
	case 1:
	case -1:
		first, last = 2, 0
	default:
		for c := range 3 {
			d.place(d.planes[c*d.planeLen:][:d.planeLen], x, y, c, w, h)
		}
		return
	}
	at := d.dst.At(x, y, first)
	p, q, r := d.planes[first*d.planeLen:], d.planes[middle*d.planeLen:], d.planes[last*d.planeLen:]
	for j := range h {
		from := planeAt(0, j)
		p, q, r := p[from:][:w], q[from:][:w], r[from:][:w]
		out := d.dst.Pix[at+j*d.dst.Row:][:3*w]
		for i, v := range p {
			o := out[3*i : 3*i+3 : 3*i+3]
			o[0], o[1], o[2] = v, q[i], r[i]
		}
	}
}
