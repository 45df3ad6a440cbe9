package mssim

import (
	"errors"
	"fmt"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

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
