package l3gpu

import (
	"bytes"
	"testing"

	"github.com/pipefs/pipefs/transcode/l3"
)

// TestPlace writes a picture as the device would, copies it, and compares with
// writing it where it belongs.
func TestPlace(t *testing.T) {
	const w, h = 7, 5
	for name, c := range map[string]struct {
		target           l3.Target
		channels, sample int
		runs             int // copies that it takes
	}{
		"HWC":        {l3.Interleaved(nil, w, 3, 1), 3, 1, 1},
		"HWC 16":     {l3.Interleaved(nil, w, 4, 2), 4, 2, 1},
		"CHW":        {l3.Planar(nil, w, h, 1), 3, 1, 1},
		"CHW 16":     {l3.Planar(nil, w, h, 2), 3, 2, 1},
		"grey":       {l3.Interleaved(nil, w, 1, 1), 1, 1, 1},
		"BMP":        {l3.Target{Base: (h-1)*24 + 2, Row: -24, Pixel: 3, Channel: -1}, 3, 1, h},
		"BMP dense":  {l3.Target{Base: (h-1)*21 + 2, Row: -21, Pixel: 3, Channel: -1}, 3, 1, 1},
		"header":     {l3.Target{Base: 100, Row: 21, Pixel: 3, Channel: 1}, 3, 1, 1},
		"RGBX":       {l3.Target{Row: 4 * w, Pixel: 4, Channel: 1}, 3, 1, w * h},
		"WHC":        {l3.Target{Row: 3, Pixel: 3 * h, Channel: 1}, 3, 1, 1},
		"planes":     {l3.Target{Row: 10, Pixel: 1, Channel: 100}, 3, 1, 3 * h},
		"rows CHW":   {l3.Target{Row: w, Pixel: 1, Channel: 100}, 3, 1, 3},
		"mirrored":   {l3.Target{Base: 18, Row: 21, Pixel: -3, Channel: 1}, 3, 1, 1},
		"wide apart": {l3.Target{Base: 7, Row: 111, Pixel: 13, Channel: 4}, 3, 2, 3 * w * h},
		"HCW":        {l3.Target{Row: 3 * w, Pixel: 1, Channel: w}, 3, 1, 1},
	} {
		sample := func(x, y, ch, b int) byte { return byte(1 + x + 7*y + 35*ch + 105*b) }
		write := func(t l3.Target) {
			for y := range h {
				for x := range w {
					for ch := range c.channels {
						for b := range c.sample {
							t.Pix[t.At(x, y, ch)+b] = sample(x, y, ch, b)
						}
					}
				}
			}
		}
		want, got := c.target, c.target
		want.Pix, got.Pix = make([]byte, 2000), make([]byte, 2000)
		if err := want.Check(w, h, c.channels, c.sample); err != nil {
			t.Fatal(name, err)
		}
		write(want)
		p := placeFor(got, w, h, c.channels, c.sample)
		on := p.target
		on.Pix = make([]byte, p.size)
		if err := on.Check(w, h, c.channels, c.sample); err != nil || p.size != w*h*c.channels*c.sample {
			t.Fatal(name, p.size, err)
		}
		write(on)
		p.copyTo(got.Pix, on.Pix)
		if !bytes.Equal(got.Pix, want.Pix) {
			t.Errorf("%s: other bytes", name)
		}
		if n := p.size / p.run; n != c.runs {
			t.Errorf("%s: %d copies, want %d", name, n, c.runs)
		}
	}
}
