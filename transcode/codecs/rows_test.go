package codecs_test

import (
	"bytes"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/pnm"
)

// TestRows: a decoder that tells where rows lie looks at these and at the head of the file,
// and at no other byte; and regions are cut out of what it decodes.
func TestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for format, d := range map[string]transcode.RowDecoder{"*.bmp": bmp.Decoder{}, "*.p[bgnp]m": pnm.Decoder{}} {
		told := 0
		for _, path := range testenv.Pictures(t, format) {
			src, err := os.ReadFile(path)
			testenv.Must(t, err)
			info, err := d.(transcode.Decoder).Probe(bytes.NewReader(src), int64(len(src)), transcode.Limits{})
			if err != nil {
				continue
			}
			all, err := d.(transcode.Decoder).Decode(t.Context(), src, transcode.Limits{})
			if err != nil {
				continue
			}
			for range 20 {
				x, y := rng.IntN(all.Width), rng.IntN(all.Height)
				r := image.Rect(x, y, x+1+rng.IntN(all.Width-x), y+1+rng.IntN(all.Height-y))
				read := src
				for head := range min(len(src), transcode.HeadLen) { // the shortest one that tells
					begin, end, ok := d.Rows(src[:head], int64(len(src)), r.Min.Y, r.Max.Y)
					if !ok {
						continue
					}
					told++
					read = bytes.Repeat([]byte{0xdb}, len(src))
					copy(read, src[:head])
					copy(read[begin:end], src[begin:end])
					break
				}
				got, err := d.DecodeRegion(t.Context(), read, transcode.Limits{}, info, r)
				if err != nil || !bytes.Equal(got.Pix, all.Cut(r).Pix) || got.Width != r.Dx() || got.Height != r.Dy() || !bytes.Equal(got.Palette, all.Palette) {
					t.Errorf("%s, %v: %v", filepath.Base(path), r, err)
				}
				lying, err := d.Lying(read, transcode.Limits{}, info, r.Min.Y, r.Max.Y)
				if err != nil || lying != nil && differs(lying, all.Cut(image.Rect(0, r.Min.Y, all.Width, r.Max.Y))) {
					t.Errorf("%s, rows of %v where they lie: %v", filepath.Base(path), r, err)
				}
			}
		}
		if told == 0 {
			t.Errorf("no file of %s tells where its rows lie", format)
		}
	}
}

func differs(a, b *transcode.Pixels) bool {
	return a.Width != b.Width || a.Height != b.Height || a.Mode != b.Mode || a.Type != b.Type || !bytes.Equal(a.Pix, b.Pix)
}
