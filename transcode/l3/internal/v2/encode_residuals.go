package v2

// coded is a channel of the block code: the zigzag-coded residuals of all samples, or
// the low or the high bytes of them, and the codes of their blocks.
type coded struct {
	// lanes are in memory one after another, pitch bytes apart: position p of lane r
	// is at lanesBefore + r*pitch + p. What belongs to no sample is 0 and stays so.
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

// residuals are those of all predictors for a plane.
func (w *Workspace) residuals(plane int) (all [preds]candidate) {
	for i := range all {
		all[i].pred = i
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
		var low, high [preds][]byte
		for i, c := range all {
			low[i] = w.lane(c.parts[0], y)
			if w.depth == 16 {
				high[i] = w.lane(c.parts[1], y)
			}
		}
		if w.depth == 16 {
			residualWords(&low, &high, w.words.around(plane, y))
			continue
		}
		around := w.bytes.around(plane, y)
		if encodeAccelerated {
			residualsAVX2(&low[predMED][0], &low[predAvg][0], &low[predMix][0], &around.at[0], &around.top[0], w.width)
		} else {
			residualBytes(&low, around)
		}
	}
	return all
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

// residualBytes computes a row's residuals for each predictor.
func residualBytes(z *[preds][]byte, n neighbours[uint8]) {
	code := func(d int) byte { return byte(int8(d)<<1 ^ int8(d)>>7) }
	left, top, topLeft := n.left[:len(n.at)], n.top[:len(n.at)], n.topLeft[:len(n.at)]
	z0, z1, z2 := z[predMED][:len(n.at)], z[predAvg][:len(n.at)], z[predMix][:len(n.at)]
	for x, v := range n.at {
		med, avg, mix := predictAll(int(left[x]), int(top[x]), int(topLeft[x]))
		z0[x], z1[x], z2[x] = code(int(v)-med), code(int(v)-avg), code(int(v)-mix)
	}
}

// residualWords is residualBytes for samples of 16 bits.
func residualWords(low, high *[preds][]byte, n neighbours[uint16]) {
	for x, v := range n.at {
		med, avg, mix := predictAll(int(n.left[x]), int(n.top[x]), int(n.topLeft[x]))
		for i, p := range [preds]int{med, avg, mix} {
			d := int16(int(v) - p)
			z := uint16(d<<1 ^ d>>15)
			low[i][x], high[i][x] = byte(z), byte(z>>8)
		}
	}
}

// predictAll returns what each predictor makes of a sample's neighbours.
func predictAll(l, t, tl int) (med, avg, mix int) {
	most, least := max(l, t), min(l, t)
	med = most + least - min(max(tl, least), most)
	avg = (l + t + 1) >> 1
	return med, avg, (med + avg + 1) >> 1
}
