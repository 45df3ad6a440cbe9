package resample

// rowsAtOnce is how many rows of so many channels horizontalRows scales.
func rowsAtOnce(channels int) int {
	if channels == 1 {
		return mostRows
	}
	return fewRows
}

// horizontalRows scales rowsAtOnce rows. It may read margin bytes behind what the last of
// them needs, and write as many behind each row.
func horizontalRows(dst []byte, dstStride int, src []byte, srcStride int, w *weights, channels int, mirror bool) {
	p := &w.packed
	entry, step := p.at(0), 4*p.entry()
	if mirror {
		entry, step = p.at(w.out-1), -step
	}
	turns := (w.out + positions - 1) / positions
	switch channels {
	case 1:
		horizontal1(&dst[0], dstStride, &src[0], srcStride, entry, step, turns, p.quads)
	case 2:
		horizontal2(&dst[0], dstStride, &src[0], srcStride, entry, step, turns, p.quads)
	case 3:
		horizontal3(&dst[0], dstStride, &src[0], srcStride, entry, step, turns, p.quads)
	case 4:
		horizontal4(&dst[0], dstStride, &src[0], srcStride, entry, step, turns, p.quads)
	}
}

// verticalRow makes row y, of at least columns bytes.
func verticalRow(dst, src []byte, stride int, w *weights, y int) {
	vertical(&dst[0], &src[int(w.first[y])*stride], stride, len(dst), w.packed.at(y), (w.most+1)/2)
}
