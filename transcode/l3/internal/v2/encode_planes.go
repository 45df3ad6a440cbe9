package v2

import (
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
)

// The planes of a patch: its samples by channel, and what colour transforms make of
// red and blue. Grey is in the place of green.
const (
	planeG    = iota
	planeRG   // R-G
	planeBG   // B-G
	planeBAvg // B-avg(R,G)
	planeR
	planeB
	planeA
	planeCount
)

type sample interface{ uint8 | uint16 }

// A planeSet has room before each row for the samples to the left of it, and after it for
// vectors that reach beyond it.
type planeSet[T sample] struct {
	width, pitch, size int
	samples            []T
}

const rowBefore = 64

func (p *planeSet[T]) prepare(width, height int) {
	p.width, p.pitch = width, rowBefore+(width+63)&^63
	p.size = p.pitch * height
	if len(p.samples) < planeCount*p.size {
		p.samples = make([]T, planeCount*p.size)
	}
}

// row is a row of a plane.
func (p *planeSet[T]) row(plane, y int) []T {
	return p.samples[plane*p.size+y*p.pitch+rowBefore:][:p.width]
}

// edges sets the sample to the left of each row to the one above the row's first sample,
// so that the first sample is predicted from the one above. MED's corner does not matter
// then.
func (p *planeSet[T]) edges(plane, height int) {
	at := plane*p.size + rowBefore
	p.samples[at-1] = ^T(0)>>1 + 1
	for range height - 1 {
		p.samples[at+p.pitch-1] = p.samples[at]
		at += p.pitch
	}
}

// gather copies the samples of a patch to planes and transforms colours.
func (w *Workspace) gather(src layout.Target, channels int) {
	if w.depth == 16 {
		w.words.prepare(w.width, w.height)
	} else {
		w.bytes.prepare(w.width, w.height)
	}
	order := [4]int{planeR, planeG, planeB, planeA}
	if channels < 3 {
		order = [4]int{planeG, planeA}
	}
	for y := range w.height {
		if w.depth == 8 {
			w.gatherBytes(src, order[:channels], y)
			continue
		}
		for c, plane := range order[:channels] {
			at := src.At(0, y, c)
			row := w.words.row(plane, y)
			for x := range row {
				row[x] = binary.LittleEndian.Uint16(src.Pix[at:])
				at += src.Pixel
			}
		}
		if channels >= 3 {
			transformRow(&w.words, y)
		}
	}
}

// gatherBytes gathers a row whose channels belong into these planes.
func (w *Workspace) gatherBytes(src layout.Target, order []int, y int) {
	if !deinterleave(&w.bytes, src, order, y) {
		for c, plane := range order {
			at := src.At(0, y, c)
			row := w.bytes.row(plane, y)
			if src.Pixel == 1 {
				copy(row, src.Pix[at:at+len(row)])
				continue
			}
			for x := range row {
				row[x] = src.Pix[at]
				at += src.Pixel
			}
		}
	}
	if len(order) < 3 {
		return
	}
	if encodeAccelerated {
		coloursAVX2(&w.bytes.row(planeG, y)[0], w.bytes.size, w.width)
	} else {
		transformRow(&w.bytes, y)
	}
}

// deinterleave splits a row of pixels of 3 or 4 samples, and returns false if it cannot.
func deinterleave(p *planeSet[uint8], src layout.Target, order []int, y int) bool {
	const vector = 16 // pixels
	n := len(order)
	if !encodeAccelerated || n < 3 || p.width < vector || src.Pixel != n || src.Channel != 1 && src.Channel != -1 {
		return false
	}
	at, first, step := src.At(0, y, 0), 0, 1
	if src.Channel < 0 {
		at, first, step = at-(n-1), n-1, -1
	}
	pixels := src.Pix[at : at+n*p.width]
	var to [4]*byte
	for i := range n {
		to[i] = &p.row(order[first+i*step], y)[0]
	}
	if n == 3 {
		deinterleave3AVX2(to[0], to[1], to[2], &pixels[0], p.width)
	} else {
		deinterleave4AVX2(to[0], to[1], to[2], to[3], &pixels[0], p.width)
	}
	return true
}

// transformRow computes the differences of colours.
func transformRow[T sample](p *planeSet[T], y int) {
	red, green, blue := p.row(planeR, y), p.row(planeG, y), p.row(planeB, y)
	rg, bg, bavg := p.row(planeRG, y), p.row(planeBG, y), p.row(planeBAvg, y)
	middle := ^T(0)>>1 + 1
	for x, g := range green {
		r, b := red[x], blue[x]
		rg[x] = r - g + middle
		bg[x] = b - g + middle
		bavg[x] = b - average(r, g) + middle
	}
}

func average[T sample](a, b T) T { return T((uint32(a) + uint32(b) + 1) / 2) }
