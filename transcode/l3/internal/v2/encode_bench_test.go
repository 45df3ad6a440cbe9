package v2

import (
	"fmt"
	"image/png"
	"math"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
)

// encodeKodak returns photographs; where they are missing, the test is skipped.
func encodeKodak(t testing.TB) (pictures []*encodeCase, size int) {
	t.Helper()
	for _, path := range testenv.Shared(t, "kodak/*.png") {
		f, err := os.Open(path)
		testenv.Must(t, err)
		m, err := png.Decode(f)
		f.Close()
		testenv.Must(t, err)
		p := &encodeCase{m.Bounds().Dx(), m.Bounds().Dy(), 3, 8, nil}
		for y := range p.height {
			for x := range p.width {
				r, g, b, _ := m.At(x, y).RGBA()
				p.pix = append(p.pix, byte(r>>8), byte(g>>8), byte(b>>8))
			}
		}
		pictures = append(pictures, p)
		size += len(p.pix)
	}
	return pictures, size
}

// encodePatches calls f with the patches of a picture, at most 256×256 pixels each.
func (c *encodeCase) encodePatches(f func(src layout.Target, width, height int)) {
	const side = 256
	src := c.target()
	for y := 0; y < c.height; y += side {
		for x := 0; x < c.width; x += side {
			at := src
			at.Base = src.At(x, y, 0)
			f(at, min(side, c.width-x), min(side, c.height-y))
		}
	}
}

// TestEncodeSizes wants the sizes of photographs that docs/l3.md and the choice of this
// format go by.
func TestEncodeSizes(t *testing.T) {
	testenv.Slow(t)
	pictures, _ := encodeKodak(t)
	var w Workspace
	for _, mode := range []struct {
		Mode
		want float64 // with headers of files
	}{{Dense, 11_849_916}, {Fast, 15_241_752}, {FastMixed, 14_908_456}} {
		n := 0
		for _, p := range pictures {
			n += 24 + 8
			p.encodePatches(func(src layout.Target, width, height int) {
				n += 4 + len(Encode(nil, src, width, height, p.channels, p.depth, mode.Mode, &w))
			})
		}
		t.Logf("%v: %d bytes, want %.0f", mode.Mode, n, mode.want)
		if len(pictures) != 24 || math.Abs(float64(n)/mode.want-1) > 0.001 {
			t.Errorf("%d photographs are %d bytes, want 24 and %.0f", len(pictures), n, mode.want)
		}
	}
}

// BenchmarkEncode encodes photographs one after the other, in patches of 256×256. Bytes
// are those of their pixels.
func BenchmarkEncode(b *testing.B) {
	pictures, size := encodeKodak(b)
	var w Workspace
	var patch []byte
	for _, mode := range []Mode{Fast, FastMixed, Dense} {
		for _, form := range encodeForms {
			b.Run(fmt.Sprintf("%s/%s", mode, form.Name), func(b *testing.B) {
				form.Use()
				codectest.Bench(b, size, func() {
					for _, p := range pictures {
						p.encodePatches(func(src layout.Target, width, height int) {
							patch = Encode(patch[:0], src, width, height, p.channels, p.depth, mode, &w)
						})
					}
				})
			})
		}
	}
}
