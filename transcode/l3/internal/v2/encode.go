package v2

import (
	"encoding/binary"
	"slices"

	"github.com/pipefs/pipefs/transcode"
)

// Mode is the set of codings that an encoder tries. It takes the smallest result.
type Mode uint8

// The modes.
const (
	Dense Mode = iota
	Fast       // decodes faster
)

// trial is the set of codings of a mode.
type trial struct {
	preds int  // the number of predictors that are tried for a channel
	rice  bool // Rice codes
}

var trials = [...]trial{
	Dense: {preds, true},
	// With all three predictors, the Kodak pictures take 2.2 % fewer bytes. With MED alone
	// they still take no more than PNG, and a patch is decoded a tenth faster and encoded
	// a half faster.
	Fast: {predMED + 1, false},
}

// Workspace is memory that calls of Encode use one after another, never two at a time.
// Its zero value is ready.
type Workspace struct {
	geometry
	trial
	depth int
	bytes planeSet[uint8]  // of depth 8
	words planeSet[uint16] // of depth 16
	// pitch is the distance between lanes of a coded, see there.
	pitch   int
	idle    []*coded
	tried   [preds]candidate // of one plane
	chosen  []candidate
	emitter emitter
}

// Encode appends the coded patch of width×height pixels, whose top left sample is
// src.Base, to dst. channels are 1 to 4 (grey, grey and alpha, RGB, RGBA), depth is
// 8 or 16; src has to have all of the samples. No padding is added after the patch, and
// memory behind dst, within its capacity, may be overwritten. The same samples always
// make the same bytes.
func Encode(dst []byte, src transcode.Target, width, height, channels, depth int, mode Mode, w *Workspace) []byte {
	w.prepare(geometryOf(width, height), depth, trials[mode])
	w.gather(src, channels)
	colour := w.choose(channels)
	dst = w.write(dst, colour)
	for _, c := range w.chosen {
		w.release(c)
	}
	return dst
}

// prepare fits the workspace to a patch of another shape.
func (w *Workspace) prepare(g geometry, depth int, try trial) {
	w.depth, w.trial = depth, try
	if w.geometry == g {
		return
	}
	w.geometry = g
	// An odd number of cache lines: lanes do not compete for the same ones.
	w.pitch = (lanesBefore+blockSteps*g.groups+lanesAfter+63)&^63 | 64
	for _, c := range w.idle {
		w.reset(c)
	}
}

// candidate is a way to code a channel: what a predictor makes of a plane.
type candidate struct {
	pred int
	bits int
	// parts are the low and the high bytes of residuals; with a depth of 8 there is
	// only the first one.
	parts [2]*coded
}

// choose sets the candidates of the patch's channels, in their order, to those that take
// the fewest bits, and returns the colour transform.
func (w *Workspace) choose(channels int) (colour int) {
	w.chosen = append(w.chosen[:0], w.best(planeG))
	if channels >= 3 {
		var red, blue candidate
		colour, red, blue = w.chooseColour()
		w.chosen = append(w.chosen, red, blue)
	}
	if channels%2 == 0 {
		w.chosen = append(w.chosen, w.best(planeA))
	}
	return colour
}

// chooseColour returns the cheapest colour transform and its candidates.
func (w *Workspace) chooseColour() (colour int, red, blue candidate) {
	red, blue = w.best(planeRG), w.best(planeBG)
	other := w.best(planeBAvg)
	colour = colourG
	if other.bits < blue.bits {
		colour, blue, other = colourAvg, other, blue
	}
	w.release(other)
	// Leaving red and blue alone is seldom better, so that one predictor of each is
	// enough to tell.
	if w.bits(planeR, red.pred)+w.bits(planeB, blue.pred) < red.bits+blue.bits {
		w.release(red)
		w.release(blue)
		colour, red, blue = colourNone, w.best(planeR), w.best(planeB)
	}
	return colour, red, blue
}

// best returns the cheapest candidate of a plane, of equals the first.
func (w *Workspace) best(plane int) candidate {
	all := w.residuals(plane)
	best := 0
	for i := range all {
		w.cost(&all[i])
		if all[i].bits < all[best].bits {
			best = i
		}
	}
	for i, c := range all {
		if i != best {
			w.release(c)
		}
	}
	return all[best]
}

// bits is what one candidate of a plane costs.
func (w *Workspace) bits(plane, pred int) int {
	all := w.residuals(plane)
	w.cost(&all[pred])
	for _, c := range all {
		w.release(c)
	}
	return all[pred].bits
}

func (w *Workspace) release(c candidate) { w.idle = append(w.idle, c.parts[:w.depth/8]...) }

// write appends the patch.
func (w *Workspace) write(dst []byte, colour int) []byte {
	channels := len(w.chosen) * w.depth / 8 // of the block code
	bits, predictors := 0, 0
	for i, c := range w.chosen {
		bits += c.bits
		predictors |= c.pred << (2 * i)
	}
	table := headLen // of codes
	if w.rice {
		table += 4 * streams
	}
	n := table + 2*w.groups*channels
	// Each stream may be padded, and emit writes 8 bytes at a time.
	most := n + bits/8 + streams + 8
	dst = slices.Grow(dst, most)
	out := dst[len(dst) : len(dst)+most]
	out[0], out[1], out[2], out[3] = byte(colour), byte(predictors), 0, 0
	e := &w.emitter
	if w.rice {
		e.begin(w.groups * channels * lanes / blockSteps)
	}
	for g := range w.groups {
		for _, c := range w.chosen {
			for _, p := range c.parts[:w.depth/8] {
				binary.LittleEndian.PutUint16(out[table:], p.codes[g])
				table += 2
				n += e.emit(out[n:], w.blocks(p, g), p.codes[g])
			}
		}
	}
	if w.rice {
		out[2] = flagRice
		for i := range streams {
			s := e.stream(i)
			binary.LittleEndian.PutUint32(out[headLen+4*i:], uint32(len(s)))
			n += copy(out[n:], s)
		}
	}
	return dst[:len(dst)+n]
}

// coded is a channel of the block code: the zigzag-coded residuals of all samples, or
// the low or the high bytes of them, and the codes of their blocks.
type coded struct {
	// lanes are in memory one after another, pitch bytes apart: position p of lane r
	// is at lanesBefore + r*pitch + p. Bytes of no sample are 0 and stay 0.
	lanes []byte
	codes []uint16 // as in the patch, one for each group of steps
}

const (
	// lanesBefore is memory for steps before a lane's first sample.
	lanesBefore = lanes
	// lanesAfter is memory for vectors that reach beyond a row.
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

// residuals computes the zigzag-coded residuals of a row for each predictor.
func residuals(z0, z1, z2 []byte, n neighbours[uint8]) {
	left, top, topLeft := n.left[:len(n.at)], n.top[:len(n.at)], n.topLeft[:len(n.at)]
	z0, z1, z2 = z0[:len(n.at)], z1[:len(n.at)], z2[:len(n.at)]
	for x, v := range n.at {
		med, avg, mix := predictAll(int(left[x]), int(top[x]), int(topLeft[x]))
		z0[x], z1[x], z2[x] = zigzag(int(v)-med), zigzag(int(v)-avg), zigzag(int(v)-mix)
	}
}

// residualsMED computes them for MED.
func residualsMED(z []byte, n neighbours[uint8]) {
	left, top, topLeft := n.left[:len(n.at)], n.top[:len(n.at)], n.topLeft[:len(n.at)]
	z = z[:len(n.at)]
	for x, v := range n.at {
		z[x] = zigzag(int(v) - median(int(left[x]), int(top[x]), int(topLeft[x])))
	}
}

// wideResiduals is residuals for samples of 16 bits, in two bytes each.
func wideResiduals(low, high *[preds][]byte, n neighbours[uint16]) {
	for x, v := range n.at {
		med, avg, mix := predictAll(int(n.left[x]), int(n.top[x]), int(n.topLeft[x]))
		for i, p := range [preds]int{med, avg, mix} {
			low[i][x], high[i][x] = wideZigzag(int(v) - p)
		}
	}
}

// wideResidualsMED is residualsMED for samples of 16 bits.
func wideResidualsMED(low, high []byte, n neighbours[uint16]) {
	for x, v := range n.at {
		low[x], high[x] = wideZigzag(int(v) - median(int(n.left[x]), int(n.top[x]), int(n.topLeft[x])))
	}
}

// predictAll returns what each predictor makes of a sample's neighbours.
func predictAll(l, t, tl int) (med, avg, mix int) {
	med, avg = median(l, t, tl), (l+t+1)>>1
	return med, avg, (med + avg + 1) >> 1
}

func zigzag(d int) byte { return byte(int8(d)<<1 ^ int8(d)>>7) }

func wideZigzag(d int) (low, high byte) {
	z := uint16(int16(d)<<1 ^ int16(d)>>15)
	return byte(z), byte(z >> 8)
}
