package jpeg

import (
	"bytes"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// BenchmarkDecodePixels decodes photographs, and a picture of 1920×1080 pixels, in
// turn with libjpeg-turbo, with this package, and with the standard library. It
// reports pixels for each second of CPU time, and speed over that of libjpeg-turbo.
// A preview is the first scan of a progressive file, which is smoothed.
func BenchmarkDecodePixels(b *testing.B) {
	var photos, progressive [][]byte
	for _, file := range photographs(b)[:40] {
		src := read(b, file)
		s, err := Progressive(src, Limits{})
		testenv.Must(b, err)
		photos, progressive = append(photos, src), append(progressive, s.Data)
	}
	ppm := largePPM()
	large, _ := tool(b, ppm, "cjpeg", "-quality", "85", "-sample", "2x2")
	largeProgressive, _ := tool(b, ppm, "cjpeg", "-quality", "85", "-sample", "2x2", "-progressive")

	for _, set := range []struct {
		name  string
		files [][]byte
		scale int
	}{
		{"bsds/baseline", photos, 1},
		{"bsds/progressive", progressive, 1},
		{"1080p/baseline", [][]byte{large}, 1},
		{"1080p/progressive", [][]byte{largeProgressive}, 1},
		{"1080p/preview", cuts(b, largeProgressive)[:1], 1},
		{"1080p/half", [][]byte{large}, 2},
		{"1080p/eighth", [][]byte{large}, 8},
	} {
		b.Run(set.name, func(b *testing.B) {
			pixels := 0
			for _, src := range set.files {
				h, err := ParseHeader(src, Limits{})
				testenv.Must(b, err)
				width, height := ScaledSize(h.Width, h.Height, set.scale)
				pixels += width * height
			}
			ways := pixelWays(b, set.files, set.scale)
			if set.scale == 1 {
				ways = append(ways, way{name: "std", run: func(i int) {
					m, err := stdjpeg.Decode(bytes.NewReader(set.files[i]))
					testenv.Must(b, err)
					standardRGB(m.(*image.YCbCr))
				}})
			}
			seconds, speed := alternate(b, len(set.files), ways)
			for w := range ways {
				b.ReportMetric(float64(pixels)/float64(len(set.files))/1e6/seconds[w], "Mpixel/s-"+ways[w].name)
				if w > 0 {
					b.ReportMetric(speed[w], "x-"+ways[w].name)
				}
			}
		})
	}
}

// standardRGB converts with the standard library's arithmetic.
func standardRGB(m *image.YCbCr) []byte {
	size := m.Rect.Size()
	pix := make([]byte, 0, 3*size.X*size.Y)
	for y := range size.Y {
		for x := range size.X {
			c := m.COffset(x, y)
			r, g, b := color.YCbCrToRGB(m.Y[m.YOffset(x, y)], m.Cb[c], m.Cr[c])
			pix = append(pix, r, g, b)
		}
	}
	return pix
}
