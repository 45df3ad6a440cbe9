package v2

import (
	"fmt"
	"image/png"
	"math"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

// BenchmarkDecode decodes photographs one after the other, in patches of 256×256. Bytes
// are those of their pixels.
func BenchmarkDecode(b *testing.B) {
	pictures, size := encodeKodak(b)
	largest := 0
	for _, p := range pictures {
		largest = max(largest, len(p.pix))
	}
	pix := make([]byte, largest)
	layouts := []struct {
		name   string
		target func(p *encodeCase) transcode.Target
	}{
		{"rgb", func(p *encodeCase) transcode.Target { return transcode.Interleaved(pix, p.width, 3, 1) }},
		{"bgr", func(p *encodeCase) transcode.Target {
			return transcode.Target{Pix: pix, Layout: transcode.Layout{Base: (p.height-1)*3*p.width + 2, Row: -3 * p.width, Pixel: 3, Channel: -1}}
		}},
		{"planar", func(p *encodeCase) transcode.Target {
			return transcode.Target{Pix: pix, Layout: transcode.Layout{Row: p.width, Pixel: 1, Channel: p.width * p.height}}
		}},
	}
	for _, mode := range []Mode{Fast, Dense} {
		files := make([]decodeFile, len(pictures))
		for i, p := range pictures {
			files[i] = newDecodeFile(p, mode)
		}
		for _, layout := range layouts {
			for _, form := range decodeForms {
				b.Run(fmt.Sprintf("%s/%s/%s", mode, layout.name, form.Name), func(b *testing.B) {
					form.Use()
					var s Scratch
					codectest.Bench(b, size, func() {
						for i, p := range pictures {
							testenv.Must(b, files[i].decode(layout.target(p), &s))
						}
					})
				})
			}
		}
	}
}

// decodeFile is the patches of a picture one after another, and what follows them.
type decodeFile struct {
	src     []byte
	patches []decodePatch
}

type decodePatch struct{ x, y, width, height, at, n int }

func newDecodeFile(p *encodeCase, mode Mode) decodeFile {
	const side = 256
	var f decodeFile
	var w Workspace
	columns := (p.width + side - 1) / side
	p.encodePatches(func(src transcode.Target, width, height int) {
		i, at := len(f.patches), len(f.src)
		f.src = Encode(f.src, src, width, height, p.channels, p.depth, mode, &w)
		f.patches = append(f.patches, decodePatch{i % columns * side, i / columns * side, width, height, at, len(f.src) - at})
	})
	f.src = append(f.src, make([]byte, TailLen)...)
	return f
}

func (f *decodeFile) decode(dst transcode.Target, s *Scratch) error {
	for _, p := range f.patches {
		to := dst
		to.Base = dst.At(p.x, p.y, 0)
		if err := DecodeRows(to, f.src[p.at:], p.n, p.width, p.height, p.height, 3, 8, s); err != nil {
			return err
		}
	}
	return nil
}

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
func (c *encodeCase) encodePatches(f func(src transcode.Target, width, height int)) {
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
	}{{Dense, 11_849_916}, {Fast, 15_241_752}} {
		n := 0
		for _, p := range pictures {
			n += 24 + 8
			p.encodePatches(func(src transcode.Target, width, height int) {
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
	for _, mode := range []Mode{Fast, Dense} {
		for _, form := range encodeForms {
			b.Run(fmt.Sprintf("%s/%s", mode, form.Name), func(b *testing.B) {
				form.Use()
				codectest.Bench(b, size, func() {
					for _, p := range pictures {
						p.encodePatches(func(src transcode.Target, width, height int) {
							patch = Encode(patch[:0], src, width, height, p.channels, p.depth, mode, &w)
						})
					}
				})
			})
		}
	}
}
