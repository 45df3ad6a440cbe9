package v2

// coded is a channel of the block code: the zigzag-coded residuals of all samples, or
// the low or the high bytes of them, and the codes of their blocks.
type coded struct {
	// lanes are in memory one after another, pitch bytes apart: position p of lane r
	// is at lanesBefore + r*pitch + p. Bytes of no sample are 0 and stay 0.
	lanes []byte
	codes []uint16 // as in the patch, one for each group of steps
}

const (
	// lanesBefore is room for steps before a lane's first sample.
	lanesBefore = lanes
	// lanesAfter is room for vectors that reach beyond a row.
	lanesAfter = 64
)

// take returns a coded for the present geometry.
func (w *Workspace) take() *coded {
	if n := len(w.idle); n > 0 {
		c := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return c
	}
	c := &coded{}
	w.reset(c)
	return c
}

// reset makes all residuals 0.
func (w *Workspace) reset(c *coded) {
	if n := lanes * w.pitch; cap(c.lanes) < n {
		c.lanes = make([]byte, n)
	} else {
		c.lanes = c.lanes[:n]
		clear(c.lanes)
	}
	if cap(c.codes) < w.groups {
		c.codes = make([]uint16, w.groups)
	}
	c.codes = c.codes[:w.groups]
}

// blocks are the lanes of a coded from a group of steps on: step s, within the group,
// of lane r is at r*(pitch-1) + s.
func (w *Workspace) blocks(c *coded, group int) laneBlocks {
	return laneBlocks{c.lanes[lanesBefore+blockSteps*group:], w.pitch - 1}
}

// lane is where the residuals of row y belong.
func (w *Workspace) lane(c *coded, y int) []byte {
	return c.lanes[lanesBefore+y%lanes*w.pitch+y/lanes*w.band:]
}

// residuals returns candidates for a plane, one for each predictor that is tried, without
// their costs. They are valid until the next call.
func (w *Workspace) residuals(plane int) []candidate {
	all := w.tried[:w.preds]
	for i := range all {
		all[i] = candidate{pred: i}
		for j := range w.depth / 8 {
			all[i].parts[j] = w.take()
		}
	}
	if w.depth == 16 {
		w.words.edges(plane, w.height)
	} else {
		w.bytes.edges(plane, w.height)
	}
	for y := range w.height {
		if w.depth == 16 {
			w.residualWords(all, plane, y)
		} else {
			w.residualBytes(all, plane, y)
		}
	}
	return all
}

// residualBytes computes the residuals of a row.
func (w *Workspace) residualBytes(all []candidate, plane, y int) {
	n := w.bytes.around(plane, y)
	med := w.lane(all[predMED].parts[0], y)
	if len(all) == 1 {
		if encodeAccelerated {
			residualsMEDAVX2(&med[0], &n.at[0], &n.top[0], w.width)
		} else {
			residualsMED(med, n)
		}
		return
	}
	avg, mix := w.lane(all[predAvg].parts[0], y), w.lane(all[predMix].parts[0], y)
	if encodeAccelerated {
		residualsAVX2(&med[0], &avg[0], &mix[0], &n.at[0], &n.top[0], w.width)
	} else {
		residuals(med, avg, mix, n)
	}
}

// residualWords is residualBytes for samples of 16 bits.
func (w *Workspace) residualWords(all []candidate, plane, y int) {
	n := w.words.around(plane, y)
	var low, high [preds][]byte
	for i, c := range all {
		low[i], high[i] = w.lane(c.parts[0], y)[:w.width], w.lane(c.parts[1], y)[:w.width]
	}
	if len(all) == 1 {
		wideResidualsMED(low[predMED], high[predMED], n)
	} else {
		wideResiduals(&low, &high, n)
	}
}

// neighbours are a row and what its samples are predicted from.
type neighbours[T sample] struct{ at, left, top, topLeft []T }

func (p *planeSet[T]) around(plane, y int) neighbours[T] {
	at := plane*p.size + y*p.pitch + rowBefore
	above := at - p.pitch
	if y == 0 {
		// Nothing is above the first row: its samples are predicted from those to the
		// left alone.
		above = at - 1
	}
	from := func(i int) []T { return p.samples[i : i+p.width] }
	return neighbours[T]{from(at), from(at - 1), from(above), from(above - 1)}
}
