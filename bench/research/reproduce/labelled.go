package main

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/pipefs/pipefs/bench/loader"
)

// The labelled set: a class for each combination of two coarse, two middle and two
// fine structures. Coarse: one large disc, or bars. Middle: waves of 10 to 14 pixels
// that lean left or right, which the second scan shows. Fine: waves of 3.4 to 4.6
// pixels that lean left or right, in some pictures so faint that only the last scans
// show them.
const (
	labelledClasses = 8
	labelledQuality = 90
	labelledSize    = 192 // MS-SSIM needs 176
)

// labelledSet writes DIR/train and DIR/test, in ImageFolder's layout.
func labelledSet(ctx context.Context, dir string, train, test int) error {
	for _, part := range []struct {
		name  string
		each  int
		first uint64
	}{{"train", train, 0}, {"test", test, 1 << 32}} {
		for c := range labelledClasses {
			if err := os.MkdirAll(filepath.Join(dir, part.name, labelOf(c)), 0o755); err != nil {
				return err
			}
		}
		err := loader.Each(ctx, 0, labelledClasses*part.each, func(_ context.Context, _, i int) error {
			c := i % labelledClasses
			b, err := encode(labelled(c, part.first+uint64(i)), "jpg", labelledQuality)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, part.name, labelOf(c), fmt.Sprintf("%05d.jpg", i)), b, 0o644)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func labelOf(class int) string { return fmt.Sprintf("class%d", class) }

// labelled draws a picture of a class. The same seed gives the same picture.
func labelled(class int, seed uint64) *image.NRGBA {
	r := rand.New(rand.NewPCG(seed, 0x5851f42d4c957f2d))
	img := image.NewNRGBA(image.Rect(0, 0, labelledSize, labelledSize))
	coarse := newCoarse(r, class&1 == 1)
	middle := newWaves(r, class&2 == 2, 10, 14, 10+14*r.Float64())
	fine := newWaves(r, class&4 == 4, 3.4, 4.6, 4*math.Pow(5, r.Float64())) // 4 to 20
	base := [3]float64{70 + 90*r.Float64(), 70 + 90*r.Float64(), 70 + 90*r.Float64()}
	slope := [2]float64{r.NormFloat64() * 0.2, r.NormFloat64() * 0.2}
	for y := range labelledSize {
		for x := range labelledSize {
			u, v := float64(x), float64(y)
			light := slope[0]*(u-labelledSize/2) + slope[1]*(v-labelledSize/2) +
				middle.at(u, v) + fine.at(u, v) + 4*r.NormFloat64()
			tone := coarse.at(u, v)
			at := func(i int) uint8 { return uint8(min(255, max(0, base[i]+light+tone[i]))) }
			img.SetNRGBA(x, y, color.NRGBA{at(0), at(1), at(2), 255})
		}
	}
	return img
}

// waves lean to one side.
type waves struct{ fx, fy, phase, amplitude float64 }

func newWaves(r *rand.Rand, left bool, from, to, amplitude float64) waves {
	angle := math.Pi/4 + r.NormFloat64()*0.15
	if left {
		angle = -angle
	}
	f := 2 * math.Pi / (from + (to-from)*r.Float64())
	return waves{f * math.Cos(angle), f * math.Sin(angle), 2 * math.Pi * r.Float64(), amplitude}
}

func (w waves) at(x, y float64) float64 { return w.amplitude * math.Sin(w.fx*x+w.fy*y+w.phase) }

// coarse is a disc, or bars across the picture.
type coarse struct {
	bars       bool
	x, y, size float64
	cos, sin   float64
	tone       [3]float64
}

func newCoarse(r *rand.Rand, bars bool) coarse {
	angle := 2 * math.Pi * r.Float64()
	c := coarse{bars: bars, cos: math.Cos(angle), sin: math.Sin(angle),
		x: labelledSize * (0.3 + 0.4*r.Float64()), y: labelledSize * (0.3 + 0.4*r.Float64()), size: 40 + 25*r.Float64()}
	shade := 35 + 35*r.Float64()
	if r.IntN(2) == 0 {
		shade = -shade
	}
	for i := range c.tone {
		c.tone[i] = shade * (0.7 + 0.6*r.Float64())
	}
	return c
}

func (c *coarse) at(x, y float64) [3]float64 {
	x, y = x-c.x, y-c.y
	if c.bars {
		if math.Mod(math.Abs(c.cos*x+c.sin*y)+c.size/4, c.size) < c.size/2 {
			return c.tone
		}
	} else if x*x+y*y < c.size*c.size {
		return c.tone
	}
	return [3]float64{}
}
