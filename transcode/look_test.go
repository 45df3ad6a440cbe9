package transcode_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/raster"
)

// painted is a picture of which each pixel has the colour that paint says.
func painted(mode transcode.Mode, width, height int, paint func(x, y int) [3]float64) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode, Type: transcode.Uint8}
	for y := range height {
		for x := range width {
			c := paint(x, y)
			px.Pix = append(px.Pix, byte(c[0]), byte(c[1]), byte(c[2]))
			if mode == transcode.ModeRGBA {
				px.Pix = append(px.Pix, 255)
			}
		}
	}
	return px
}

// regions divides a picture into n regions, each nearest to a point of its own.
func regions(width, height, n int) func(x, y int) int {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	points := make([][2]float64, n)
	for i := range points {
		points[i] = [2]float64{r.Float64() * float64(width), r.Float64() * float64(height)}
	}
	return func(x, y int) int {
		best, least := 0, math.Inf(1)
		for i, p := range points {
			if d := math.Hypot(p[0]-float64(x), p[1]-float64(y)); d < least {
				best, least = i, d
			}
		}
		return best
	}
}

// coloured paints regions.
func coloured(region func(x, y int) int, colour func(id int) [3]float64) func(x, y int) [3]float64 {
	return func(x, y int) [3]float64 { return colour(region(x, y)) }
}

// asID is the colour of a COCO panoptic id: R + 256 G + 65536 B.
func asID(id int) [3]float64 {
	return [3]float64{float64(id & 255), float64(id >> 8 & 255), float64(id >> 16)}
}

func TestLookOf(t *testing.T) {
	rgb := transcode.ModeRGB
	grey := func(v float64) [3]float64 { return [3]float64{v, v, v} }
	random := func(id int) [3]float64 { return asID(id * 1234577 % (1 << 24)) }
	circle := func(x, y float64) bool { return math.Hypot(x-60, y-50) < 35 }
	for name, c := range map[string]struct {
		px   *transcode.Pixels
		want transcode.Look
	}{
		"panoptic ids":           {painted(rgb, 320, 240, coloured(regions(320, 240, 24), random)), transcode.LookLabels},
		"ids that count up":      {painted(rgb, 320, 240, coloured(regions(320, 240, 24), func(id int) [3]float64 { return asID(id + 1) })), transcode.LookLabels},
		"many ids that count up": {painted(rgb, 320, 240, coloured(regions(320, 240, 300), func(id int) [3]float64 { return asID(id + 1) })), transcode.LookLabels},
		"with alpha":             {painted(transcode.ModeRGBA, 320, 240, coloured(regions(320, 240, 24), random)), transcode.LookLabels},
		"colours of 19 classes":  {painted(rgb, 256, 128, coloured(regions(256, 128, 40), func(id int) [3]float64 { return random(id % 19) })), transcode.LookLabels},
		"classes as grey RGB":    {painted(rgb, 256, 128, coloured(regions(256, 128, 40), func(id int) [3]float64 { return grey(float64(id % 19)) })), transcode.LookLabels},
		"0 and 1":                {painted(rgb, 100, 100, coloured(regions(100, 100, 9), func(id int) [3]float64 { return grey(float64(id & 1)) })), transcode.LookLabels},
		"small":                  {painted(rgb, 32, 32, coloured(regions(32, 32, 8), random)), transcode.LookLabels},
		"edges, one pixel wide": {painted(rgb, 200, 200, func(x, y int) [3]float64 {
			if x == y || x+3*y == 300 || x == 150 {
				return grey(255)
			}
			return grey(0)
		}), transcode.LookLabels},
		"a very large one": {painted(rgb, 2000, 1500, func(x, y int) [3]float64 { return random(x/250 + 8*(y/250)) }), transcode.LookLabels},

		"one colour":           {painted(rgb, 100, 100, func(int, int) [3]float64 { return grey(7) }), transcode.LookBlank},
		"tiny":                 {painted(rgb, 7, 9, func(x, y int) [3]float64 { return grey(float64(x * 30)) }), transcode.LookBlank},
		"one pixel":            {painted(rgb, 1, 1, func(int, int) [3]float64 { return grey(1) }), transcode.LookBlank},
		"a mode that is safe":  {&transcode.Pixels{Width: 32, Height: 32, Mode: transcode.ModeL, Pix: make([]byte, 1024)}, transcode.LookBlank},
		"a gradient":           {painted(rgb, 640, 100, func(x, _ int) [3]float64 { return grey(float64(x) / 640 * 256) }), transcode.LookPhoto},
		"a very wide gradient": {painted(rgb, 3840, 200, func(x, _ int) [3]float64 { return grey(float64(x) / 3840 * 256) }), transcode.LookPhoto},
		"a sky without dither": {painted(rgb, 320, 240, func(x, y int) [3]float64 {
			if y > 120 {
				return [3]float64{40, 120, 30}
			}
			return [3]float64{100 + float64(y), 100 + float64(y), 255}
		}), transcode.LookPhoto},
		"a shaded sphere": {painted(rgb, 320, 240, func(x, y int) [3]float64 {
			d := math.Hypot(float64(x)-160, float64(y)-120) / 80
			if d >= 1 {
				return [3]float64{90, 160, 220}
			}
			return [3]float64{math.Sqrt(1-d*d) * 255, math.Sqrt(1-d*d) * 60, 30}
		}), transcode.LookPhoto},
		"a drawing with soft edges": {painted(rgb, 120, 100, func(x, y int) [3]float64 {
			in := 0
			for i := range 64 {
				if circle(float64(x)+float64(i%8)/8, float64(y)+float64(i/8)/8) {
					in++
				}
			}
			return [3]float64{255 - float64(in)*3, 255 - float64(in), 250}
		}), transcode.LookPhoto},
		"noise": {painted(rgb, 64, 64, func(x, y int) [3]float64 { return grey(float64(x * y * 7 % 251)) }), transcode.LookPhoto},
	} {
		if got := transcode.LookOf(c.px); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestPhotographsAreNoLabels looks at real ones: whole, as thumbnails, in grey, and small
// on black as scans are.
func TestPhotographsAreNoLabels(t *testing.T) {
	for _, path := range testenv.Shared(t, "kodak/*.png") {
		src, err := os.ReadFile(path)
		testenv.Must(t, err)
		px, err := png.Decoder{}.Decode(t.Context(), src, transcode.Limits{})
		testenv.Must(t, err)
		small := func(side int) *transcode.Pixels {
			out, err := raster.Bilinear(context.Background(), px, side, side)
			testenv.Must(t, err)
			return out
		}
		grey := func(px *transcode.Pixels) *transcode.Pixels {
			return painted(transcode.ModeRGB, px.Width, px.Height, func(x, y int) [3]float64 {
				v := float64(px.Pix[3*(y*px.Width+x)+1])
				return [3]float64{v, v, v}
			})
		}
		for name, px := range map[string]*transcode.Pixels{
			"whole": px, "grey": grey(px), "256": small(256), "64": small(64), "32": small(32), "grey 32": grey(small(32)),
			"on black": raster.CenterCrop(small(128), 600), "grey on black": raster.CenterCrop(grey(small(128)), 600),
		} {
			if got := transcode.LookOf(px); got < transcode.LookPhoto || name == "grey" && got != transcode.LookPicture {
				t.Errorf("%s, %s: %d", path, name, got)
			}
		}
	}
}

// TestLookPicture wants no values to be blended that may be labels, and most pictures to be known.
func TestLookPicture(t *testing.T) {
	grey := func(v float64) [3]float64 { return [3]float64{v, v, v} }
	r := rand.New(rand.NewPCG(3, 4))
	photo := pictures.Photo(320, 240, 1)
	at := func(x, y int) float64 { return float64(photo.NRGBAAt(x, y).G) }
	ids := regions(200, 150, 250)
	for name, c := range map[string]struct {
		paint func(x, y int) [3]float64
		want  bool
	}{
		"a photograph":                 {func(x, y int) [3]float64 { return grey(at(x, y)) }, true},
		"a palette of a photograph":    {func(x, y int) [3]float64 { v := at(x, y); return [3]float64{v, 255 - v, v / 2} }, true},
		"a photograph of few levels":   {func(x, y int) [3]float64 { return grey(math.Round(at(x, y)/16) * 16) }, false},
		"instances":                    {func(x, y int) [3]float64 { return grey(float64(ids(x, y))) }, false},
		"superpixels":                  {func(x, y int) [3]float64 { return grey(float64((x/9 + y/9*23) % 256)) }, false},
		"superpixels with rough edges": {func(x, y int) [3]float64 { return grey(float64(((x+r.IntN(3))/16 + (y+r.IntN(3))/16*20) % 256)) }, false},
		"a matte": {func(x, y int) [3]float64 {
			return grey(255 / (1 + math.Exp((math.Hypot(float64(x)-160, float64(y)-120)-70)/4)))
		}, false},
		"distances":            {func(x, y int) [3]float64 { return grey(math.Hypot(float64(x)-160, float64(y)-120)) }, false},
		"values without order": {func(int, int) [3]float64 { return grey(float64(r.IntN(256))) }, false},
	} {
		if got := transcode.LookOf(painted(transcode.ModeRGB, 320, 240, c.paint)); (got == transcode.LookPicture) != c.want {
			t.Errorf("%s: %d, and surely a picture is %v", name, got, c.want)
		}
	}
}
