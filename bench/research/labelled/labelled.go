// Package labelled makes a set of pictures to train on: classes that a small network learns
// in minutes.
//
// There is a class for each combination of two coarse, two middle and two fine
// structures. Coarse: one large disc, or bars. Middle: waves of 10 to 14 pixels
// that lean left or right, which the second scan shows. Fine: waves of 3.4 to 4.6
// pixels that lean left or right, in some pictures so faint that only the last scans
// show them.
package labelled

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/pipefs/pipefs/bench/loader"
)

const (
	// Classes is their number.
	Classes = 8
	// Quality of the JPEG files.
	Quality = 90
	// Size of a picture, in pixels. MS-SSIM needs 176.
	Size = 192
)

// Write writes DIR/train and DIR/test in ImageFolder's layout, with so many pictures of each class.
func Write(ctx context.Context, dir string, train, test int) error {
	for _, part := range []struct {
		name  string
		each  int
		first uint64
	}{{"train", train, 0}, {"test", test, 1 << 32}} {
		for c := range Classes {
			if err := os.MkdirAll(filepath.Join(dir, part.name, nameOf(c)), 0o755); err != nil {
				return err
			}
		}
		err := loader.Each(ctx, 0, Classes*part.each, func(_ context.Context, _, i int) error {
			c := i % Classes
			var b bytes.Buffer
			if err := jpeg.Encode(&b, Draw(c, part.first+uint64(i)), &jpeg.Options{Quality: Quality}); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, part.name, nameOf(c), fmt.Sprintf("%05d.jpg", i)), b.Bytes(), 0o644)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func nameOf(class int) string { return fmt.Sprintf("class%d", class) }

// Draw draws a picture of a class. The same seed gives the same picture.
func Draw(class int, seed uint64) *image.NRGBA {
	r := rand.New(rand.NewPCG(seed, 0x5851f42d4c957f2d))
	img := image.NewNRGBA(image.Rect(0, 0, Size, Size))
	coarse := newCoarse(r, class&1 == 1)
	middle := newWaves(r, class&2 == 2, 10, 14, 10+14*r.Float64())
	fine := newWaves(r, class&4 == 4, 3.4, 4.6, 4*math.Pow(5, r.Float64())) // 4 to 20
	base := [3]float64{70 + 90*r.Float64(), 70 + 90*r.Float64(), 70 + 90*r.Float64()}
	slope := [2]float64{r.NormFloat64() * 0.2, r.NormFloat64() * 0.2}
	for y := range Size {
		for x := range Size {
			u, v := float64(x), float64(y)
			light := slope[0]*(u-Size/2) + slope[1]*(v-Size/2) +
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
		x: Size * (0.3 + 0.4*r.Float64()), y: Size * (0.3 + 0.4*r.Float64()), size: 40 + 25*r.Float64()}
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
