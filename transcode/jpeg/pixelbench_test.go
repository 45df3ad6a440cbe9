package jpeg

import (
	"bytes"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"testing"
)

// BenchmarkDecodePixels decodes photographs, and a picture of 1920×1080 pixels,
// with this package, with libjpeg-turbo, and with the standard library. Bytes are
// those of the pixels. A preview is the first scan of a progressive file, which is
// smoothed.
func BenchmarkDecodePixels(b *testing.B) {
	var photos, progressive [][]byte
	for _, file := range photographs(b)[:40] {
		src := read(b, file)
		s, err := Progressive(src, Limits{})
		if err != nil {
			b.Fatal(err)
		}
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
		for _, decoder := range []struct {
			name   string
			decode func(b *testing.B, src []byte)
		}{
			{"own", func(b *testing.B, src []byte) {
				if _, err := DecodePixels(src, set.scale, Limits{}); err != nil {
					b.Fatal(err)
				}
			}},
			{"libturbojpeg", func(b *testing.B, src []byte) {
				h, err := ParseHeader(src, Limits{})
				if err != nil {
					b.Fatal(err)
				}
				width, height := ScaledSize(h.Width, h.Height, set.scale)
				m := &Image{width, height, 3, make([]byte, 3*width*height)}
				if err := decompress(b, src, m); err != nil {
					b.Fatal(err)
				}
			}},
			{"std", func(b *testing.B, src []byte) {
				m, err := stdjpeg.Decode(bytes.NewReader(src))
				if err != nil {
					b.Fatal(err)
				}
				standardRGB(m.(*image.YCbCr))
			}},
		} {
			if set.scale > 1 && decoder.name == "std" {
				continue
			}
			b.Run(set.name+"/"+decoder.name, func(b *testing.B) {
				pixels := 0
				for _, src := range set.files {
					h, _ := ParseHeader(src, Limits{})
					width, height := ScaledSize(h.Width, h.Height, set.scale)
					pixels += width * height
				}
				b.SetBytes(int64(3 * pixels / len(set.files)))
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					decoder.decode(b, set.files[i%len(set.files)])
					i++
				}
			})
		}
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
