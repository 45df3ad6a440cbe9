// Package mssim measures how alike two pictures look: the multi-scale structural
// similarity of Wang, Simoncelli and Bovik ("Multiscale structural similarity
// for image quality assessment", 2003). It is the measure by which the paper on
// progressive compressed records (PCR, VLDB 2021) judges its scans.
//
// # Nouns
//
// A window is the Gaussian of 11 by 11 pixels, σ 1.5, through which means,
// variances and the covariance of two pictures are seen at each place where it
// fits as a whole. From them come the luminance term, how alike the means are,
// and the contrast term, how alike the variances are and how well the deviations
// go together.
//
// A level is the pictures at one size; each of the five is half the one before
// it. The similarity is the product of the contrast terms of the first four and
// of luminance times contrast at the last, each to the power of its weight:
// 1 for equal pictures, less for all others.
//
// # Channels
//
// The three channels of an RGB picture count alike: at each level the mean goes
// over all of them. The PCR paper does not say what it measures on; the
// program that its authors published (mkuchnik/PCR_Release, compat/metric.py)
// does this, after Pillow's convert('RGB'), and 0.95 is a mark on that scale.
// On luma alone the same scan scores higher where its colour comes late.
//
// As that program does, a last row or column that has no partner counts twice
// when a level is halved, and K1 = 0.01, K2 = 0.03, L = 255. It lets the window
// shrink where a picture is smaller than the window at some level; here that is
// [ErrSmall], since the result is another measure.
package mssim

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/pipefs/pipefs/transcode"
)

// Rows go through all levels as they come, so that memory depends on the width
// alone, and what is at work stays in the processor's cache.
//
// What flows is not the pictures x and y but their sum s and difference d, since
// four filters then do the work of five:
//
//	var(x) + var(y) = (var(s) + var(d)) / 2
//	2 cov(x, y)     = (var(s) - var(d)) / 2
//
// and likewise for the means. Besides, equal pictures have d = 0 everywhere, so
// that their similarity is 1 exactly.

// pyramid is the buffers of one comparison.
type pyramid struct {
	width  int
	levels [levels]level
	s, d   []float64 // a row of the pictures
}

// level is the pictures at one size.
type level struct {
	rows   int // of this channel that came so far
	filter filter
	// held is an even row of s and d, until its partner comes.
	heldS, heldD []float64
	// sum of the terms at all places of the window, in all channels.
	sum    float64
	places int
}

var pool sync.Pool

// getPyramid returns an empty pyramid for pictures of a width.
func getPyramid(width int) *pyramid {
	if p, _ := pool.Get().(*pyramid); p != nil && p.width == width {
		for i := range p.levels {
			p.levels[i].sum, p.levels[i].places, p.levels[i].rows = 0, 0, 0
		}
		return p
	}
	p := &pyramid{width: width, s: make([]float64, width), d: make([]float64, width)}
	for i := range p.levels {
		p.levels[i].filter = newFilter(width)
		p.levels[i].heldS = make([]float64, width)
		p.levels[i].heldD = make([]float64, width)
		width = (width + 1) / 2
	}
	return p
}

func putPyramid(p *pyramid) { pool.Put(p) }

// load takes one channel of the next row of both pictures.
func (p *pyramid) load(a, b []byte, channel, channels int) {
	for i := range p.s {
		x, y := float64(a[channel]), float64(b[channel])
		p.s[i], p.d[i] = x+y, x-y
		channel += channels
	}
	p.push(0, p.s, p.d)
}

// push takes a row at level i. It may overwrite the row.
func (p *pyramid) push(i int, s, d []float64) {
	l := &p.levels[i]
	if l.filter.push(s, d, l.rows) {
		l.sum += l.filter.terms(l.rows, i == levels-1)
		l.places += l.filter.width
	}
	l.rows++
	switch {
	case i == levels-1:
	case l.rows%2 == 1:
		copy(l.heldS, s)
		copy(l.heldD, d)
	default:
		p.push(i+1, halve(l.heldS, s), halve(l.heldD, d))
	}
}

// finish ends a channel.
func (p *pyramid) finish() {
	for i := range p.levels {
		l := &p.levels[i]
		if i < levels-1 && l.rows%2 == 1 {
			p.push(i+1, halve(l.heldS, l.heldS), halve(l.heldD, l.heldD))
		}
		l.rows = 0
	}
}

// halve leaves in a, and returns, the means of two by two values of both rows.
// A last one without a partner counts twice.
func halve(a, b []float64) []float64 {
	n := len(a) / 2
	for i := range n {
		a[i] = (a[2*i] + a[2*i+1] + (b[2*i] + b[2*i+1])) / 4
	}
	if last := len(a) - 1; last%2 == 0 {
		a[n] = (a[last] + b[last]) / 2
		n++
	}
	return a[:n]
}

// Safe is the PCR paper's mark: scans whose similarity to the whole picture is
// at or above it trained as well as the whole ("scan groups of 5 or higher have
// an MSSIM of 95 %+, which is likely why they consistently perform well").
const Safe = 0.95

// Least is the shortest side that five levels take: the window at the last.
const Least = window << (levels - 1)

// ErrSmall marks pictures with a side shorter than Least.
var ErrSmall = errors.New("too small for five levels")

const levels = 5

// weights of the levels, the largest pictures first: those of the 2003 paper,
// from experiments with people.
var weights = [levels]float64{0.0448, 0.2856, 0.3001, 0.2363, 0.1333}

// Compare returns the similarity of two pictures of the same size and mode, RGB
// or L: 1 for equal ones, and never more. A contrast term below 0, of pictures
// that are each other's negatives, counts as 0. Compare(a, b) is Compare(b, a).
func Compare(a, b *transcode.Pixels) (float64, error) {
	switch {
	case a.Mode != b.Mode || a.Width != b.Width || a.Height != b.Height:
		return 0, fmt.Errorf("mssim: %v %dx%d and %v %dx%d cannot be compared", a.Mode, a.Width, a.Height, b.Mode, b.Width, b.Height)
	case a.Mode != transcode.ModeRGB && a.Mode != transcode.ModeL, a.Type != transcode.Uint8, b.Type != transcode.Uint8, a.Planar, b.Planar:
		return 0, fmt.Errorf("mssim: pictures of mode %v cannot be compared; decode to RGB or L", a.Mode)
	case len(a.Pix) != a.Len() || len(b.Pix) != b.Len():
		return 0, fmt.Errorf("mssim: %d and %d bytes, want %d", len(a.Pix), len(b.Pix), a.Len())
	case min(a.Width, a.Height) < Least:
		return 0, fmt.Errorf("%w: %d by %d pixels, and the shorter side has to have %d", ErrSmall, a.Width, a.Height, Least)
	}
	channels, row := a.Mode.Channels(), a.RowBytes()
	p := getPyramid(a.Width)
	defer putPyramid(p)
	for c := range channels {
		for y := range a.Height {
			p.load(a.Pix[y*row:][:row], b.Pix[y*row:][:row], c, channels)
		}
		p.finish()
	}
	return p.similarity(), nil
}

// similarity combines the levels.
func (p *pyramid) similarity() float64 {
	product := 1.0
	for i := range p.levels {
		l := &p.levels[i]
		product *= math.Pow(max(0, l.sum/float64(l.places)), weights[i])
	}
	return product
}

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
