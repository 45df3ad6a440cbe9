package mssim

import "math"

// window is the side of the Gaussian, in pixels, and sigma its deviation.
const (
	window = 11
	sigma  = 1.5
)

// The constants that keep the terms stable where means or variances are near 0:
// (K1·L)² and (K2·L)² for values of 8 bits.
const (
	c1 = (0.01 * 255) * (0.01 * 255)
	c2 = (0.03 * 255) * (0.03 * 255)
)

// gauss is half of the window in one direction, its centre last: it is symmetric,
// and that in two directions is the product of that in each.
var gauss = func() (g [window/2 + 1]float64) {
	total := 0.0
	for i := range g {
		x := float64(window/2 - i)
		g[i] = math.Exp(-x * x / (2 * sigma * sigma))
		total += 2 * g[i]
	}
	total -= g[window/2]
	for i := range g {
		g[i] /= total
	}
	return g
}()

// maps is how many quantities are filtered: s, d and their squares.
const maps = 4

// filter sees the rows of a level through the window.
type filter struct {
	width int // places of the window in a row
	// ring is the last rows, filtered across.
	ring [window][maps][]float64
	// square is a row of squares, sums a row filtered both ways.
	square []float64
	sums   [maps][]float64
}

// newFilter makes a filter for rows of n values, at least window.
func newFilter(n int) filter {
	f := filter{width: n - window + 1, square: make([]float64, n)}
	all := make([]float64, (window+1)*maps*f.width)
	row := func() []float64 {
		r := all[:f.width:f.width]
		all = all[f.width:]
		return r
	}
	for i := range f.ring {
		for m := range f.ring[i] {
			f.ring[i][m] = row()
		}
	}
	for m := range f.sums {
		f.sums[m] = row()
	}
	return f
}

// push takes the row of number n, from 0, and reports whether there are enough
// rows for the window.
func (f *filter) push(s, d []float64, n int) bool {
	slot := &f.ring[n%window]
	across(slot[0], s)
	across(slot[1], f.squares(s))
	across(slot[2], d)
	across(slot[3], f.squares(d))
	return n >= window-1
}

func (f *filter) squares(row []float64) []float64 {
	out := f.square[:len(row)]
	for i, v := range row {
		out[i] = v * v
	}
	return out
}

// across filters a row: len(out) is len(in) less window-1.
func across(out, in []float64) {
	g0, g1, g2, g3, g4, g5 := gauss[0], gauss[1], gauss[2], gauss[3], gauss[4], gauss[5]
	in = in[:len(out)+window-1]
	for i := range out {
		v := in[i : i+window : i+window]
		out[i] = g0*(v[0]+v[10]) + g1*(v[1]+v[9]) + g2*(v[2]+v[8]) +
			(g3*(v[3]+v[7]) + g4*(v[4]+v[6]) + g5*v[5])
	}
}

// down filters the ring's rows of map m, n being the last.
func (f *filter) down(m, n int) []float64 {
	g0, g1, g2, g3, g4, g5 := gauss[0], gauss[1], gauss[2], gauss[3], gauss[4], gauss[5]
	row := func(back int) []float64 { return f.ring[(n-back)%window][m][:f.width] }
	r0, r1, r2, r3, r4, r5 := row(0), row(1), row(2), row(3), row(4), row(5)
	r6, r7, r8, r9, r10 := row(6), row(7), row(8), row(9), row(10)
	out := f.sums[m][:f.width]
	for i := range out {
		out[i] = g0*(r0[i]+r10[i]) + g1*(r1[i]+r9[i]) + g2*(r2[i]+r8[i]) +
			(g3*(r3[i]+r7[i]) + g4*(r4[i]+r6[i]) + g5*r5[i])
	}
	return out
}

// terms is the sum of the contrast terms, times the luminance terms if wanted,
// over the places of the window whose last row is number n.
func (f *filter) terms(n int, luminance bool) float64 {
	s, ss, d, dd := f.down(0, n), f.down(1, n), f.down(2, n), f.down(3, n)
	total := 0.0
	for i := range s {
		meanS, meanD := s[i]*s[i], d[i]*d[i]
		// Rounding must not make a variance negative: no term is more than 1.
		varS, varD := max(0, ss[i]-meanS), max(0, dd[i]-meanD)
		term := (varS - varD + 2*c2) / (varS + varD + 2*c2)
		if luminance {
			term *= (meanS - meanD + 2*c1) / (meanS + meanD + 2*c1)
		}
		total += term
	}
	return total
}
