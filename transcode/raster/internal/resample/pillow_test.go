package resample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// crop is a question: what torchvision makes of a box of a picture.
type crop struct {
	px                  *transcode.Pixels
	x, y, width, height int
	out                 [2]int // width and height
	filter              Filter
	mirror              bool
}

func (c crop) String() string {
	return fmt.Sprintf("%v %dx%d: %dx%d at %d,%d to %dx%d, filter %d, mirror %v",
		c.px.Mode, c.px.Width, c.px.Height, c.width, c.height, c.x, c.y, c.out[0], c.out[1], c.filter, c.mirror)
}

// scale is our answer.
func (c crop) scale(t testing.TB, to []byte) {
	t.Helper()
	channels := c.px.Mode.Channels()
	src := Of(c.px).Box(c.x, c.y, c.width, c.height, channels)
	dst := Image{Pix: to, Stride: c.out[0] * channels, Width: c.out[0], Height: c.out[1]}
	testenv.Must(t, Scale(t.Context(), dst, src, c.px.Mode, c.filter, c.mirror))
}

// size is that of an answer in bytes.
func (c crop) size() int { return c.out[0] * c.out[1] * c.px.Mode.Channels() }

// their answers are written one after another.
const resizedCrops = `
import json, sys
from PIL import Image
from torchvision.transforms import functional as F
from torchvision.transforms import InterpolationMode

filters = [InterpolationMode.BILINEAR, InterpolationMode.BICUBIC]
pictures = {}
with open(sys.argv[2], "wb") as out:
    for path, mode, size, box, to, f, mirror in json.load(open(sys.argv[1])):
        if path not in pictures:
            pictures[path] = Image.frombytes(mode, size, open(path, "rb").read())
        im = F.resized_crop(pictures[path], box[1], box[0], box[3], box[2], to[::-1], filters[f])
        out.write((F.hflip(im) if mirror else im).tobytes())
`

// save writes questions as the programs here read them.
func save(t testing.TB, crops []crop) string {
	t.Helper()
	dir := t.TempDir()
	paths := map[*transcode.Pixels]string{}
	var list [][7]any
	for _, c := range crops {
		if paths[c.px] == "" {
			paths[c.px] = filepath.Join(dir, fmt.Sprint(len(paths)))
			testenv.Must(t, os.WriteFile(paths[c.px], c.px.Pix, 0o644))
		}
		list = append(list, [7]any{
			paths[c.px], c.px.Mode.String(), [2]int{c.px.Width, c.px.Height},
			[4]int{c.x, c.y, c.width, c.height}, c.out, c.filter, c.mirror,
		})
	}
	b, err := json.Marshal(list)
	testenv.Must(t, err)
	path := filepath.Join(dir, "list")
	testenv.Must(t, os.WriteFile(path, b, 0o644))
	return path
}

// compare wants all forms to answer as torchvision does.
func compare(t *testing.T, crops []crop) {
	t.Helper()
	answers := filepath.Join(t.TempDir(), "answers")
	pillow.Run(t, resizedCrops, save(t, crops), answers)
	all, err := os.ReadFile(answers)
	testenv.Must(t, err)
	forms.Each(t, func(t *testing.T) {
		rest := all
		for _, c := range crops {
			got := make([]byte, c.size())
			c.scale(t, got)
			var want []byte
			want, rest = rest[:len(got)], rest[len(got):]
			if !bytes.Equal(got, want) {
				n, most := 0, 0
				for i, v := range got {
					if d := int(v) - int(want[i]); d != 0 {
						n++
						most = max(most, d, -d)
					}
				}
				t.Errorf("%v: %d of %d bytes differ, by up to %d", c, n, len(got), most)
			}
		}
		if len(rest) != 0 {
			t.Errorf("%d bytes of answers are left", len(rest))
		}
	})
	t.Logf("%d crops", len(crops))
}

// TestResizedCrop compares with torchvision's resized_crop and hflip of PIL images: all
// modes, filters and sizes, boxes in the middle and at the edges.
func TestResizedCrop(t *testing.T) {
	testenv.Slow(t)
	rng := rand.New(rand.NewPCG(7, 8))
	var crops []crop
	outs := [][2]int{{1, 1}, {2, 3}, {7, 5}, {16, 16}, {33, 12}, {32, 32}, {96, 97}}
	for _, mode := range modes {
		for _, size := range append(pillow.Sizes, [2]int{2, 2}, [2]int{100, 75}, [2]int{33, 200}, [2]int{300, 4}) {
			px := pillow.Sample(mode, size[0], size[1])
			for _, out := range append(outs, size, [2]int{size[0], 9}, [2]int{9, size[1]}) {
				for i := range 4 {
					c := crop{px: px, width: size[0], height: size[1], out: out, filter: Filter(i % 2), mirror: i >= 2}
					crops = append(crops, c)
					c.width, c.height = 1+rng.IntN(size[0]), 1+rng.IntN(size[1])
					c.x, c.y = rng.IntN(size[0]-c.width+1), rng.IntN(size[1]-c.height+1)
					crops = append(crops, c)
				}
			}
		}
	}
	compare(t, crops)
}

// TestExtremes compares where sums are as large and as small as they get: bicubic ones go
// over and under, and thousands of rounded weights may add up to more than 1.
func TestExtremes(t *testing.T) {
	testenv.Slow(t)
	rng := rand.New(rand.NewPCG(9, 10))
	var crops []crop
	for name, fill := range fillings {
		for _, mode := range modes {
			sizes := [][2]int{{61, 47}, {5, 200}}
			if name == "white" || name == "extremes" {
				sizes = append(sizes, [2]int{20001, 2}, [2]int{2, 20001})
			}
			if name == "white" && mode == transcode.ModeL {
				sizes = append(sizes, [2]int{1_000_003, 1})
			}
			for _, size := range sizes {
				px := &transcode.Pixels{Width: size[0], Height: size[1], Mode: mode}
				px.Pix = make([]byte, px.Len())
				for i := range px.Pix {
					px.Pix[i] = fill(rng, i)
				}
				for _, out := range [][2]int{{1, 1}, {3, 2}, {47, 61}, {200, 5}} {
					for f := range Filter(2) {
						crops = append(crops, crop{px: px, width: size[0], height: size[1], out: out, filter: f, mirror: out[0] == 3})
					}
				}
			}
		}
	}
	compare(t, crops)
}

// photographs are crops as RandomResizedCrop draws them, one of each photograph for each
// filter: 0.08 to 1 of the area, sides of 3:4 to 4:3, and half of them mirrored.
func photographs(t testing.TB, side int, filters ...Filter) []crop {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	var crops []crop
	for _, a := range pillow.Open(t, testenv.Shared(t, "imagenet/*")...) {
		if a.Mode != "RGB" {
			continue
		}
		px := &transcode.Pixels{Width: a.Shape[1], Height: a.Shape[0], Mode: transcode.ModeRGB, Pix: a.Data}
		for _, f := range filters {
			c := crop{px: px, width: px.Width, height: px.Height, out: [2]int{side, side}, filter: f, mirror: rng.IntN(2) == 0}
			for range 10 {
				area := (0.08 + 0.92*rng.Float64()) * float64(px.Width*px.Height)
				ratio := math.Exp((2*rng.Float64() - 1) * math.Log(4./3))
				width, height := int(math.Round(math.Sqrt(area*ratio))), int(math.Round(math.Sqrt(area/ratio)))
				if width > 0 && width <= px.Width && height > 0 && height <= px.Height {
					c.width, c.height = width, height
					c.x, c.y = rng.IntN(px.Width-width+1), rng.IntN(px.Height-height+1)
					break
				}
			}
			crops = append(crops, c)
		}
	}
	return crops
}

func TestPhotographs(t *testing.T) {
	testenv.Slow(t)
	compare(t, photographs(t, 224, Bilinear, Bicubic))
}
