package v1

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
	if accelerated && w >= 32 {
		from := planeAt(0, 0)
		interleaveAVX2(&d.dst.Pix[at], d.dst.Row, &p[from], &q[from], &r[from], w, h)
		return
	}
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
