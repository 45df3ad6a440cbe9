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
