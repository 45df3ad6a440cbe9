package raster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// oracle writes what torchvision makes of pictures on Pillow: [operation, number, mode, width,
// height] a line of argv[1], their pixels in argv[2], the results in argv[3].
const oracle = `
import json, sys
import numpy as np, torch
from PIL import Image
from torchvision.transforms import InterpolationMode, functional as F
from torchvision.transforms.autoaugment import _apply_op

torch.set_num_threads(1)
named = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast, "saturation": F.adjust_saturation,
         "sharpness": F.adjust_sharpness, "hue": F.adjust_hue, "grey": lambda im, _: F.rgb_to_grayscale(im, len(im.getbands())),
         "solarize": F.solarize, "posterize": lambda im, n: F.posterize(im, int(n)), "invert": lambda im, _: F.invert(im),
         "autocontrast": lambda im, _: F.autocontrast(im), "equalize": lambda im, _: F.equalize(im)}
moved = {"shearx": "ShearX", "sheary": "ShearY", "translatex": "TranslateX", "translatey": "TranslateY", "rotate": "Rotate"}

def apply(im, op, by):
    if op in moved:
        nearest = im.mode in ("P", "I")  # masks
        return _apply_op(im, moved[op], by, InterpolationMode.NEAREST if nearest else InterpolationMode.BILINEAR, None)
    if op.startswith("blur"):
        return F.gaussian_blur(im, int(op[4:]), [by, by])
    return named[op](im, by)

pixels = np.fromfile(sys.argv[2], np.uint8)
with open(sys.argv[3], "wb") as out:
    for line in open(sys.argv[1]):
        op, by, mode, width, height = json.loads(line)
        n = width * height * {"RGB": 3, "I": 2}.get(mode, 1)
        if mode == "I":  # 16 bits
            im = Image.fromarray(pixels[:n].view(np.uint16).reshape(height, width).astype(np.int32))
            out.write(np.asarray(apply(im, op, by)).astype(np.uint16).tobytes())
        else:
            out.write(apply(Image.frombytes(mode, (width, height), pixels[:n].tobytes()), op, by).tobytes())
        pixels = pixels[n:]
`

// operations are what is compared, with the numbers that each takes.
var operations = []struct {
	name   string
	number func(r *rand.Rand, p bitmap) float64
	apply  func(p bitmap, by float64)
}{
	{"brightness", factor, func(p bitmap, by float64) { p.Brightness(float32(by)) }},
	{"contrast", factor, func(p bitmap, by float64) { p.Contrast(float32(by)) }},
	{"saturation", factor, func(p bitmap, by float64) { p.Saturation(float32(by)) }},
	{"sharpness", factor, func(p bitmap, by float64) { p.Sharpness(float32(by)) }},
	{"hue", func(r *rand.Rand, _ bitmap) float64 { return r.Float64() - .5 }, func(p bitmap, by float64) { p.Hue(int(by * 255)) }},
	{"grey", none, func(p bitmap, _ float64) { p.Grey() }},
	{"posterize", func(r *rand.Rand, _ bitmap) float64 { return float64(1 + r.IntN(8)) }, func(p bitmap, by float64) { p.Posterize(int(by)) }},
	{"solarize", func(r *rand.Rand, _ bitmap) float64 { return float64(r.IntN(513)) / 2 }, bitmap.Solarize},
	{"invert", none, func(p bitmap, _ float64) { p.Invert() }},
	{"autocontrast", none, func(p bitmap, _ float64) { p.Autocontrast() }},
	{"equalize", none, func(p bitmap, _ float64) { p.Equalize() }},
	{"shearx", level, bitmap.ShearX},
	{"sheary", level, bitmap.ShearY},
	{"translatex", shift, func(p bitmap, by float64) { p.Translate(int(by), 0) }},
	{"translatey", shift, func(p bitmap, by float64) { p.Translate(0, int(by)) }},
	{"rotate", degrees, bitmap.Rotate},
	{"blur3", sigma, func(p bitmap, by float64) { p.Blur(3, by) }},
	{"blur9", sigma, func(p bitmap, by float64) { p.Blur(9, by) }},
	{"blur23", sigma, func(p bitmap, by float64) { p.Blur(23, by) }},
}

// masked are those that masks follow.
var masked = []string{"shearx", "sheary", "translatex", "translatey", "rotate"}

func none(*rand.Rand, bitmap) float64 { return 0 }

func factor(r *rand.Rand, _ bitmap) float64 {
	switch r.IntN(8) {
	case 0: // of RandAugment
		return 1 + float64(float32(r.IntN(61)-30)*.03)
	case 1:
		return float64(r.IntN(4))
	case 2:
		return 4 * r.Float64()
	}
	return float64(2 * r.Float32())
}

func level(r *rand.Rand, _ bitmap) float64 {
	if r.IntN(2) == 0 {
		return float64(r.Float32()*2 - 1)
	}
	return float64([]float32{.01, .033}[r.IntN(2)] * float32(r.IntN(61)-30))
}

func shift(r *rand.Rand, p bitmap) float64 { return float64(r.IntN(2*p.Width+2) - p.Width - 1) }

func degrees(r *rand.Rand, _ bitmap) float64 {
	switch r.IntN(3) {
	case 0:
		return float64(r.IntN(61)-30) * 4.5 // of TrivialAugment
	case 1:
		return float64(float32(r.IntN(19)-9) * float32(30) / 9) // of AutoAugment
	}
	return 360 * (r.Float64() - .5)
}

func sigma(r *rand.Rand, _ bitmap) float64 { return .1 + 1.9*r.Float64() }

// draw makes a picture: noise, gradients, few colours, or one.
func draw(r *rand.Rand, least int) bitmap {
	p := bitmap{Width: least + r.IntN(40), Height: least + r.IntN(40), Channels: 1 + 2*min(r.IntN(4), 1)}
	p.Pix = make([]byte, p.Width*p.Height*p.Channels)
	kind, most := r.IntN(4), 1+r.IntN(255)
	var slope [3][3]float64
	for c := range slope {
		slope[c] = [3]float64{r.Float64() * 300, (r.Float64() - .5) * 16, (r.Float64() - .5) * 16}
	}
	for i := range p.Pix {
		c, x, y := i%p.Channels, i/p.Channels%p.Width, i/p.Channels/p.Width
		switch kind {
		case 0:
			p.Pix[i] = byte(r.IntN(256))
		case 1:
			p.Pix[i] = byte(min(max(slope[c][0]+slope[c][1]*float64(x)+slope[c][2]*float64(y)+4*r.Float64(), 0), 255))
		case 2:
			p.Pix[i] = byte((x/7*5 + y/5*3 + c) % 4 * most / 4)
		default:
			p.Pix[i] = byte(most)
		}
	}
	return p
}

// TestOracle compares each operation with torchvision's on Pillow.
func TestOracle(t *testing.T) {
	testenv.Slow(t)
	cases := 500
	if testenv.Soak() {
		cases = 10_000
	}
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	dir := t.TempDir()
	var lines, pixels bytes.Buffer
	var ours [][]byte
	var names []string
	for _, op := range operations {
		least := 1
		if _, err := fmt.Sscanf(op.name, "blur%d", &least); err == nil {
			least = least/2 + 1 // torchvision refuses less
		}
		for range cases {
			p := draw(r, least)
			mode := map[int]string{1: "L", 3: "RGB"}[p.Channels]
			if mode == "L" && slices.Contains(masked, op.name) && r.IntN(2) == 0 {
				p.Nearest, p.Bytes, mode = true, 1, "P"
				if r.IntN(2) == 0 && p.Width > 1 {
					p.Bytes, mode, p.Width = 2, "I", p.Width/2
					p.Pix = p.Pix[:2*p.Width*p.Height]
				}
			}
			by := op.number(r, p)
			text, err := json.Marshal([]any{op.name, by, mode, p.Width, p.Height})
			testenv.Must(t, err)
			lines.Write(append(text, '\n'))
			pixels.Write(p.Pix)
			op.apply(p, by)
			ours, names = append(ours, p.Pix), append(names, string(text))
		}
	}
	in, raw, out := filepath.Join(dir, "in"), filepath.Join(dir, "raw"), filepath.Join(dir, "out")
	testenv.Must(t, os.WriteFile(in, lines.Bytes(), 0o644))
	testenv.Must(t, os.WriteFile(raw, pixels.Bytes(), 0o644))
	pillow.Run(t, oracle, in, raw, out)
	theirs, err := os.ReadFile(out)
	testenv.Must(t, err)
	if len(theirs) != pixels.Len() {
		t.Fatalf("%d bytes of %d", len(theirs), pixels.Len())
	}
	wrong := map[string]int{}
	for i, got := range ours {
		want := theirs[:len(got)]
		theirs = theirs[len(got):]
		op, most := operations[i/cases].name, 0.
		if strings.HasPrefix(op, "blur") {
			most = 1
		}
		for j := range got {
			if math.Abs(float64(got[j])-float64(want[j])) > most {
				if wrong[op]++; wrong[op] == 1 {
					t.Errorf("%s: byte %d is %d, and %d of torchvision", names[i], j, got[j], want[j])
				}
				break
			}
		}
	}
	for op, n := range wrong {
		t.Errorf("%s: %d of %d pictures differ", op, n, cases)
	}
}
