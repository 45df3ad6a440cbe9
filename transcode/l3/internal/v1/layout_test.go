package v1

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
)

// layouts are those that have a way of their own, and some that have none. Memory
// is given to them later.
var layouts = []struct {
	name   string
	target func(w, h, channels int) layout.Target
}{
	{"interleaved", func(w, h, n int) layout.Target { return layout.Interleaved(nil, w, n, 1) }},
	{"gaps", func(w, h, n int) layout.Target { return layout.Target{Row: w*n + 13, Pixel: n, Channel: 1} }},
	{"reversed", func(w, h, n int) layout.Target {
		return layout.Target{Base: n - 1, Row: w * n, Pixel: n, Channel: -1}
	}},
	{"bmp", func(w, h, n int) layout.Target {
		stride := (w*n + 3) &^ 3
		return layout.Target{Base: (h-1)*stride + n - 1, Row: -stride, Pixel: n, Channel: -1}
	}},
	{"planar", func(w, h, n int) layout.Target { return layout.Planar(nil, w, h, 1) }},
	{"planarUpwards", func(w, h, n int) layout.Target {
		return layout.Target{Base: (h - 1) * w, Row: -w, Pixel: 1, Channel: w * h}
	}},
	{"planarBackwards", func(w, h, n int) layout.Target {
		return layout.Target{Base: (n - 1) * w * h, Row: w, Pixel: 1, Channel: -w * h}
	}},
	{"planarGaps", func(w, h, n int) layout.Target {
		return layout.Target{Base: 5, Row: w + 3, Pixel: 1, Channel: (w+3)*h + 7}
	}},
	{"rowsOfChannels", func(w, h, n int) layout.Target { return layout.Target{Row: n * w, Pixel: 1, Channel: w} }},
	{"four", func(w, h, n int) layout.Target { return layout.Target{Base: 1, Row: 4 * w, Pixel: 4, Channel: 1} }},
	{"wide", func(w, h, n int) layout.Target { return layout.Target{Row: 2 * n * w, Pixel: 2 * n, Channel: 2} }},
	{"mirrored", func(w, h, n int) layout.Target {
		return layout.Target{Base: (w - 1) * n, Row: w * n, Pixel: -n, Channel: 1}
	}},
	{"threeApart", func(w, h, n int) layout.Target { return layout.Target{Row: 3 * w, Pixel: 3, Channel: 3 * w * h} }},
	{"turned", func(w, h, n int) layout.Target { return layout.Target{Row: n, Pixel: n * h, Channel: 1} }},
}

// extent is how much memory a layout with positions from 0 on takes.
func extent(l *layout.Target, w, h, channels int) int {
	n := 0
	for _, x := range []int{0, w - 1} {
		for _, y := range []int{0, h - 1} {
			for c := range channels {
				n = max(n, 1+l.At(x, y, c))
			}
		}
	}
	return n
}

// TestLayouts writes to and reads from all of them, between pages that cannot be
// touched.
func TestLayouts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, size := range [][2]int{{1, 1}, {5, 3}, {32, 4}, {64, 64}, {70, 66}, {128, 64}, {131, 13}, {200, 129}} {
		w, h := size[0], size[1]
		for _, patch := range []int{5, 32, 40, 64, 100, 128} {
			for _, channels := range []int{1, 3} {
				p := newPicture(rng, w, h, channels, rng.IntN(len(contents)))
				src := encode(t, p, patch)
				for _, l := range layouts {
					target := l.target(w, h, channels)
					for _, atEnd := range []bool{false, true} {
						pix, free := codectest.Guarded(t, extent(&target, w, h, channels), atEnd)
						target.Pix = pix
						checkLayout(t, l.name, target, p, src, patch)
						free()
					}
				}
			}
		}
	}
}

func checkLayout(t *testing.T, name string, target layout.Target, p *picture, src []byte, patch int) {
	t.Helper()
	const untouched = 0xa5
	for i := range target.Pix {
		target.Pix[i] = untouched
	}
	want := bytes.Clone(target.Pix)
	for y := range p.height {
		for x := range p.width {
			for c := range p.channels {
				want[target.At(x, y, c)] = p.pix[(y*p.width+x)*p.channels+c]
			}
		}
	}
	if err := Decode(target, src); err != nil {
		t.Fatalf("%s: %v in patches of %d: %v", name, p, patch, err)
	}
	if !bytes.Equal(target.Pix, want) {
		for i := range want {
			if target.Pix[i] != want[i] {
				t.Fatalf("%s: %v in patches of %d: byte %d of %d is %d, want %d", name, p, patch, i, len(want), target.Pix[i], want[i])
			}
		}
	}
	got, err := Encode(target, p.width, p.height, p.channels, patch)
	if err != nil || !bytes.Equal(got, src) {
		t.Fatalf("%s: %v in patches of %d: other bytes than from interleaved pixels, %v", name, p, patch, err)
	}
}

// TestSourceMemory reads files between pages that cannot be touched.
func TestSourceMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		p := newPicture(rng, 1+rng.IntN(150), 1+rng.IntN(20), 1+2*rng.IntN(2), rng.IntN(len(contents)))
		b := encode(t, p, 1+rng.IntN(maxPatch))
		for _, atEnd := range []bool{false, true} {
			src, free := codectest.Guarded(t, len(b), atEnd)
			copy(src, b)
			wantDecoded(t, src, p)
			free()
		}
	}
}
