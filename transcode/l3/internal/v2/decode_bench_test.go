package v2

import (
	"fmt"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
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
		target func(p *encodeCase) layout.Target
	}{
		{"rgb", func(p *encodeCase) layout.Target { return layout.Interleaved(pix, p.width, 3, 1) }},
		{"bgr", func(p *encodeCase) layout.Target {
			return layout.Target{Pix: pix, Base: (p.height-1)*3*p.width + 2, Row: -3 * p.width, Pixel: 3, Channel: -1}
		}},
		{"planar", func(p *encodeCase) layout.Target { return layout.Planar(pix, p.width, p.height, 1) }},
	}
	for _, mode := range []Mode{Fast, FastMixed, Dense} {
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
	p.encodePatches(func(src layout.Target, width, height int) {
		i, at := len(f.patches), len(f.src)
		f.src = Encode(f.src, src, width, height, p.channels, p.depth, mode, &w)
		f.patches = append(f.patches, decodePatch{i % columns * side, i / columns * side, width, height, at, len(f.src) - at})
	})
	f.src = append(f.src, make([]byte, TailLen)...)
	return f
}

func (f *decodeFile) decode(dst layout.Target, s *Scratch) error {
	for _, p := range f.patches {
		to := dst
		to.Base = dst.At(p.x, p.y, 0)
		if err := Decode(to, f.src[p.at:], p.n, p.width, p.height, 3, 8, s); err != nil {
			return err
		}
	}
	return nil
}
