package v2

// restoreRows makes samples of the residuals in the rows of a band. top says that it
// is the first band.
func (s *Scratch) restoreRows(rows int, top bool) {
	for r := range rows {
		c := 0
		if s.samples >= 3 && !s.wide && (r > 0 || !top) {
			var p [3]chain
			for c := range p {
				p[c] = chain{s.rowAbove(c, r, top), s.rowOf(c, r), s.preds[c]}
			}
			if s.med {
				restoreThreeMED(&p)
			} else {
				restoreThree(&p)
			}
			c = 3
		}
		for ; c < s.samples; c++ {
			if s.wide {
				restoreWide(s.rowAbove(2*c, r, top), s.rowAbove(2*c+1, r, top), s.rowOf(2*c, r), s.rowOf(2*c+1, r), s.preds[c])
			} else {
				restore(s.rowAbove(c, r, top), s.rowOf(c, r), s.preds[c])
			}
		}
	}
}

func (s *Scratch) rowOf(c, r int) []byte { return s.rows[s.row(c, r):][:s.width] }

// rowAbove returns nil above the first row of a patch.
func (s *Scratch) rowAbove(c, r int, top bool) []byte {
	switch {
	case r > 0:
		return s.rowOf(c, r-1)
	case top:
		return nil
	}
	return s.rows[s.row(c, lanes-1)-s.band:][:s.width]
}

// restore makes samples of residuals.
func restore(above, row []byte, p int) {
	if above == nil {
		// There is nothing above, so all predictors take the sample to the left.
		l := 1 << 7
		for x, z := range row {
			l += residual(int(z))
			row[x] = byte(l)
		}
		return
	}
	above = above[:len(row)]
	l, tl := int(above[0]), int(above[0])
	for x, z := range row {
		t := int(above[x])
		l = (predict(p, l, t, tl) + residual(int(z))) & 0xff
		row[x] = byte(l)
		tl = t
	}
}

// chain is a row in which each sample depends on the one before.
type chain struct {
	above, row []byte
	pred       int
}

// restoreThree is restore for three rows, which do not depend on each other.
func restoreThree(p *[3]chain) {
	n := len(p[0].row)
	a0, a1, a2 := p[0].above[:n], p[1].above[:n], p[2].above[:n]
	r0, r1, r2 := p[0].row[:n], p[1].row[:n], p[2].row[:n]
	mean0, notMED0 := choice(p[0].pred)
	mean1, notMED1 := choice(p[1].pred)
	mean2, notMED2 := choice(p[2].pred)
	l0, l1, l2 := int(a0[0]), int(a1[0]), int(a2[0])
	tl0, tl1, tl2 := l0, l1, l2
	for x := range n {
		t0, t1, t2 := int(a0[x]), int(a1[x]), int(a2[x])
		l0 = (mixed(l0, t0, tl0, mean0, notMED0) + residual(int(r0[x]))) & 0xff
		l1 = (mixed(l1, t1, tl1, mean1, notMED1) + residual(int(r1[x]))) & 0xff
		l2 = (mixed(l2, t2, tl2, mean2, notMED2) + residual(int(r2[x]))) & 0xff
		r0[x], r1[x], r2[x] = byte(l0), byte(l1), byte(l2)
		tl0, tl1, tl2 = t0, t1, t2
	}
}

// restoreThreeMED is restoreThree where all are predicted by MED.
func restoreThreeMED(p *[3]chain) {
	n := len(p[0].row)
	a0, a1, a2 := p[0].above[:n], p[1].above[:n], p[2].above[:n]
	r0, r1, r2 := p[0].row[:n], p[1].row[:n], p[2].row[:n]
	l0, l1, l2 := int(a0[0]), int(a1[0]), int(a2[0])
	tl0, tl1, tl2 := l0, l1, l2
	for x := range n {
		t0, t1, t2 := int(a0[x]), int(a1[x]), int(a2[x])
		l0 = (median(l0, t0, tl0) + residual(int(r0[x]))) & 0xff
		l1 = (median(l1, t1, tl1) + residual(int(r1[x]))) & 0xff
		l2 = (median(l2, t2, tl2) + residual(int(r2[x]))) & 0xff
		r0[x], r1[x], r2[x] = byte(l0), byte(l1), byte(l2)
		tl0, tl1, tl2 = t0, t1, t2
	}
}

// choice returns the masks with which mixed computes a predictor.
func choice(p int) (mean, notMED int) {
	if p == predAvg {
		mean = -1
	}
	if p != predMED {
		notMED = -1
	}
	return mean, notMED
}

// mixed is predict without a branch: the average of two values, each of which is MED
// or, where a mask has ones, AVG.
func mixed(l, t, tl, mean, notMED int) int {
	med := median(l, t, tl)
	d := (l+t+1)>>1 ^ med
	return ((med ^ d&mean) + (med ^ d&notMED) + 1) >> 1
}

// restoreWide is restore for samples of 16 bits, whose lower and upper bytes are rows
// of their own.
func restoreWide(aboveLow, aboveHigh, low, high []byte, p int) {
	l := 1 << 15
	if aboveLow != nil {
		l = int(aboveLow[0]) | int(aboveHigh[0])<<8
	}
	tl := l
	for x := range low {
		t := l
		if aboveLow != nil {
			t = int(aboveLow[x]) | int(aboveHigh[x])<<8
		}
		l = (predict(p, l, t, tl) + residual(int(low[x])|int(high[x])<<8)) & 0xffff
		low[x], high[x] = byte(l), byte(l>>8)
		tl = t
	}
}

// predict returns the prediction from the left, above, and above left.
func predict(p, l, t, tl int) int {
	if p == predAvg {
		return (l + t + 1) >> 1
	}
	med := median(l, t, tl)
	if p == predMED {
		return med
	}
	return (med + (l+t+1)>>1 + 1) >> 1
}

// median is MED.
func median(l, t, tl int) int {
	mx, mn := max(l, t), min(l, t)
	return mx + mn - min(max(tl, mn), mx)
}

// residual decodes the zigzag code.
func residual(z int) int { return z>>1 ^ -(z & 1) }
