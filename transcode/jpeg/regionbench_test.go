package jpeg

import (
	"image"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// randomResizedCrop draws a rectangle as torchvision's RandomResizedCrop does by default:
// an area of 0.08 to 1 of the picture's, and sides in a ratio of 3/4 to 4/3.
func randomResizedCrop(rng *rand.Rand, width, height int) image.Rectangle {
	uniform := func(from, to float64) float64 { return from + (to-from)*rng.Float64() }
	for range 10 {
		area := float64(width*height) * uniform(0.08, 1)
		ratio := math.Exp(uniform(math.Log(3.0/4), math.Log(4.0/3)))
		w, h := int(math.RoundToEven(math.Sqrt(area*ratio))), int(math.RoundToEven(math.Sqrt(area/ratio)))
		if w > 0 && w <= width && h > 0 && h <= height {
			return image.Rect(0, 0, w, h).Add(image.Pt(rng.IntN(width-w+1), rng.IntN(height-h+1)))
		}
	}
	w, h := width, height
	switch ratio := float64(width) / float64(height); {
	case ratio < 3.0/4:
		h = int(math.RoundToEven(float64(w) / (3.0 / 4)))
	case ratio > 4.0/3:
		w = int(math.RoundToEven(float64(h) * (4.0 / 3)))
	}
	return image.Rect(0, 0, w, h).Add(image.Pt((width-w)/2, (height-h)/2))
}

// BenchmarkDecodeRegion decodes one random crop of each photograph, in turn with the whole
// picture. It reports CPU time for each, the ratio, and which part of the pixels, and of the
// rows down to the crop's last one, the crops have.
func BenchmarkDecodeRegion(b *testing.B) {
	for name, pattern := range map[string]string{"imagenet": "imagenet/*.JPEG", "bsds": "bsds/*.jpg"} {
		var files, progressive [][]byte
		for _, file := range testenv.Shared(b, pattern) {
			src := read(b, file)
			s, err := Progressive(src, Limits{})
			testenv.Must(b, err)
			files, progressive = append(files, src), append(progressive, s.Data)
		}
		for _, set := range []struct {
			name  string
			files [][]byte
		}{{name, files}, {name + "/progressive", progressive}} {
			b.Run(set.name, func(b *testing.B) {
				rng := rand.New(rand.NewPCG(400, 1))
				var crops []image.Rectangle
				area, rows := 0.0, 0.0
				for _, src := range set.files {
					h, err := ParseHeader(src, Limits{})
					testenv.Must(b, err)
					r := randomResizedCrop(rng, h.Width, h.Height)
					crops = append(crops, r)
					area += float64(r.Dx()*r.Dy()) / float64(h.Width*h.Height) / float64(len(set.files))
					rows += float64(r.Max.Y) / float64(h.Height) / float64(len(set.files))
				}
				seconds, speed := alternate(b, len(set.files), []way{
					{name: "whole", run: func(i int) { _, err := DecodePixels(set.files[i], 1, Limits{}); testenv.Must(b, err) }},
					{name: "region", run: func(i int) { _, err := DecodeRegion(set.files[i], crops[i], Limits{}); testenv.Must(b, err) }},
				})
				b.ReportMetric(1e3*seconds[0], "ms-whole")
				b.ReportMetric(1e3*seconds[1], "ms-region")
				b.ReportMetric(1/speed[1], "region/whole")
				b.ReportMetric(area, "of-pixels")
				b.ReportMetric(rows, "of-rows")
			})
		}
	}
}
