package v1

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

// kodak returns photographs, and the number of bytes of their PNG files.
func kodak(t testing.TB) (pictures []*picture, files int) {
	t.Helper()
	for _, path := range testenv.Shared(t, "kodak/*.png") {
		src := read(t, path)
		files += len(src)
		m, err := png.Decode(bytes.NewReader(src))
		testenv.Must(t, err)
		size := m.Bounds().Size()
		p := &picture{size.X, size.Y, 3, nil}
		for rgba := m.(*image.RGBA).Pix; len(rgba) > 0; rgba = rgba[4:] {
			p.pix = append(p.pix, rgba[:3]...)
		}
		pictures = append(pictures, p)
	}
	return pictures, files
}

// BenchmarkDecode decodes photographs one after the other. Bytes are those of their
// pixels.
func BenchmarkDecode(b *testing.B) {
	pictures, _ := kodak(b)
	for _, patch := range []int{16, 32, 64, 128} {
		var files [][]byte
		size, largest := 0, 0
		for _, p := range pictures {
			files = append(files, encode(b, p, patch))
			size, largest = size+len(p.pix), max(largest, len(p.pix))
		}
		pix := make([]byte, largest)
		for _, layout := range []struct {
			name   string
			target func(p *picture) transcode.Target
		}{
			{"rgb", func(p *picture) transcode.Target { return transcode.Interleaved(pix, p.width, 3, 1) }},
			{"bgr", func(p *picture) transcode.Target {
				return transcode.Target{Pix: pix, Layout: transcode.Layout{Base: (p.height-1)*3*p.width + 2, Row: -3 * p.width, Pixel: 3, Channel: -1}}
			}},
			{"planar", func(p *picture) transcode.Target {
				return transcode.Target{Pix: pix, Layout: transcode.Layout{Row: p.width, Pixel: 1, Channel: p.width * p.height}}
			}},
		} {
			b.Run(fmt.Sprintf("patch=%d/%s", patch, layout.name), func(b *testing.B) {
				codectest.Bench(b, size, func() {
					for i, p := range pictures {
						testenv.Must(b, Decode(layout.target(p), files[i]))
					}
				})
			})
		}
	}
}

// TestSizes tells how large photographs become, beside their PNG files.
func TestSizes(t *testing.T) {
	testenv.Slow(t)
	pictures, files := kodak(t)
	raw := 0
	for _, p := range pictures {
		raw += len(p.pix)
	}
	t.Logf("PNG: %d bytes, %.4f of %d", files, float64(files)/float64(raw), raw)
	for _, patch := range []int{4, 8, 12, 16, 24, 32, 48, 64, 128, 255} {
		n := 0
		for _, p := range pictures {
			b := encode(t, p, patch)
			wantDecoded(t, b, p)
			n += len(b)
		}
		t.Logf("patches of %d: %d bytes, %.4f, %.3f of PNG", patch, n, float64(n)/float64(raw), float64(n)/float64(files))
	}
}
