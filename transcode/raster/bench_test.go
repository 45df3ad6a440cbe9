package raster

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// BenchmarkKernels takes 224×224 RGB pixels of a photograph's statistics, copied first.
// python/tests/bench_recipes.py compares with torchvision.
func BenchmarkKernels(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	p := bitmap{Pix: make([]byte, 224*224*3), Width: 224, Height: 224, Channels: 3}
	for i := range p.Pix { // a random walk from the neighbours
		from := 90 + 40*(i%3)
		if i >= 3+224*3 {
			from = (int(p.Pix[i-3]) + int(p.Pix[i-224*3])) / 2
		}
		p.Pix[i] = byte(min(max(from+r.IntN(25)-12, 0), 255))
	}
	numbers := map[string]float64{"brightness": 1.4, "contrast": 1.4, "saturation": 1.4, "sharpness": 1.4, "hue": .1, "posterize": 4,
		"solarize": 128, "shearx": .3, "sheary": .3, "translatex": 20, "translatey": 20, "rotate": 30, "blur23": 1}
	for _, op := range operations {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			q := p
			q.Pix = slices.Clone(p.Pix)
			cpu := testenv.CPU(b)
			for range b.N {
				copy(q.Pix, p.Pix)
				op.apply(q, cmp.Or(numbers[op.name], .5))
			}
			cpu()
		})
	}
}
