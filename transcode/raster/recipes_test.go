package raster

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// drawnByTorchvision draws n times of each transform, and tells names and numbers as ours: what
// the transforms call is recorded in place of being done.
const drawnByTorchvision = `
import json, sys
import torch
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import autoaugment, functional as F, transforms

n = int(sys.argv[1])
torch.manual_seed(1)
im, drawn = Image.new("RGB", (224, 160)), []
factors = {"Brightness": "brightness", "Color": "saturation", "Contrast": "contrast", "Sharpness": "sharpness"}

def record(im, name, by, **_):
    drawn[-1].append([factors.get(name, name.lower()), 1 + by if name in factors else int(by) if name[:5] in ("Trans", "Poste") else by])
    return im

autoaugment._apply_op = record
for name in ("brightness", "contrast", "saturation", "hue"):
    setattr(F, "adjust_" + name, lambda im, by, name=name: record(im, name, by))
F.solarize = lambda im, by: record(im, "solarize", by)
F.rgb_to_grayscale = lambda im, num_output_channels: record(im, "grey", 0)
F.gaussian_blur = lambda im, size, sigma: record(im, "blur", sigma[0])
F.erase = lambda im, y, x, h, w, v, inplace: record(im, "erase", 0) if h < 160 and not drawn[-1].extend([["x", x], ["y", y], ["w", w], ["h", h]]) else im

out = {}
for spec, t in {
    "trivialaugment": T.TrivialAugmentWide(), "randaug2_9": T.RandAugment(2, 9), "randaug1_25": T.RandAugment(1, 25), "autoaugment": T.AutoAugment(),
    "colorjitter40_30_20_10p80": T.RandomApply([T.ColorJitter(.4, .3, .2, .1)], p=.8), "randgrey20": T.RandomGrayscale(.2),
    "blur23p50": T.RandomApply([T.GaussianBlur(23)], p=.5), "solarize128p20": T.RandomSolarize(128, p=.2), "erase30": T.RandomErasing(p=.3),
}.items():
    picture = torch.zeros(3, 160, 224) if spec == "erase30" else im
    drawn.clear()
    for _ in range(n):
        drawn.append([])
        t(picture)
    out[spec] = list(drawn)
json.dump(out, sys.stdout)
`

// drawnOp is the name of an operation, or of a side of a box, and its number.
type drawnOp struct {
	name string
	by   float64
}

func (o *drawnOp) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &[]any{&o.name, &o.by}) }

// features are what of draws is compared: how often each operation is drawn in each place, and
// the numbers that each has.
func features(draws [][]drawnOp) map[string][]float64 {
	all := map[string][]float64{}
	for i, ops := range draws {
		for place, o := range ops {
			at := fmt.Sprintf("%s in place %d", o.name, place)
			if all[at] == nil {
				all[at] = make([]float64, len(draws))
			}
			all[at][i] = 1
			all[o.name] = append(all[o.name], o.by)
		}
		all["operations"] = append(all["operations"], float64(len(ops)))
	}
	return all
}

// unlike names the features of two samples that cannot come from the same distribution, at a
// level of one in a million.
func unlike(a, b [][]drawnOp) (names []string) {
	ours, theirs := features(a), features(b)
	for name := range theirs {
		if ours[name] == nil {
			ours[name] = []float64{math.Inf(1)}
		}
	}
	for name, v := range ours {
		w := theirs[name]
		limit := math.Sqrt(-math.Log(1e-6/2)/2) * math.Sqrt(1/float64(len(v))+1/float64(max(1, len(w))))
		if (len(v) > 20 || len(w) > 20) && (len(w) == 0 || kolmogorov(v, w) > limit) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestDrawnOperations compares what the steps draw with what torchvision's transforms do.
func TestDrawnOperations(t *testing.T) {
	testenv.Slow(t)
	n := 3000
	if testenv.Soak() {
		n = 50_000
	}
	var theirs map[string][][]drawnOp
	testenv.Must(t, json.Unmarshal(pillow.Run(t, drawnByTorchvision, fmt.Sprint(n)), &theirs))
	registry := transcode.NewRegistry(transcode.Limits{}, nil, append(Recipes(), &transcode.Kind{
		Name: "npy", From: transcode.Picture, To: transcode.File, Ext: "npy", Size: func(transcode.Shape) int64 { return 0 },
	}))
	in := transcode.Shape{Info: transcode.Info{Width: 224, Height: 160, Mode: transcode.ModeRGB}}
	for spec, theirs := range theirs {
		p, err := registry.ParseRandom(spec + "-npy")
		testenv.Must(t, err)
		step := p.Steps()[1]
		var ours, frozen, shifted [][]drawnOp
		for i := range n {
			d := transcode.Draw{Seed: 1, Epoch: uint64(i / 100), Path: fmt.Sprintf("n/%d.jpg", i%100)}
			c := step.Kind.Draw(in, step, d.Random(step.Kind.Name))
			var ops []drawnOp
			if c.Width > 0 {
				ops = []drawnOp{{"x", float64(c.X)}, {"y", float64(c.Y)}, {"w", float64(c.Width)}, {"h", float64(c.Height)}}
			}
			for _, o := range c.Ops {
				ops = append(ops, drawnOp{o.Name, o.By})
			}
			ours = append(ours, ops)
			frozen = append(frozen, ours[0])
			moved := slices.Clone(ops)
			for j := range moved {
				moved[j].by = moved[j].by*1.1 + .1
			}
			shifted = append(shifted, moved)
		}
		if names := unlike(ours, theirs); names != nil {
			t.Errorf("%s: another distribution of %v", spec, names)
		}
		// The test can tell.
		for what, wrong := range map[string][][]drawnOp{"frozen": frozen, "shifted": shifted} {
			if unlike(wrong, theirs) == nil {
				t.Errorf("%s: draws that are %s pass", spec, what)
			}
		}
	}
}

// spaces asks for the numbers of each operation of each policy.
const spaces = `
import json, sys
from torchvision import transforms as T

def numbers(space, n):
    return {name: v.double().tolist() if v.ndim else [0.0] * n for name, (v, _) in space.items()}

size = (160, 224)
json.dump([numbers(T.TrivialAugmentWide()._augmentation_space(31), 31), numbers(T.RandAugment()._augmentation_space(31, size), 31),
           numbers(T.AutoAugment()._augmentation_space(10, size), 10)], sys.stdout)
`

// TestMagnitudes compares all numbers that policies draw with torchvision's.
func TestMagnitudes(t *testing.T) {
	testenv.Slow(t)
	var theirs []map[string][]float64
	testenv.Must(t, json.Unmarshal(pillow.Run(t, spaces), &theirs))
	in := transcode.Shape{Info: transcode.Info{Width: 224, Height: 160}}
	for p, ours := range [][]operation{wide, narrow(in), narrow(in)} {
		for _, o := range ours {
			name := o.name
			if name == "saturation" {
				name = "color"
			}
			for theirName, numbers := range theirs[p] {
				for i, want := range numbers {
					if got := o.op(i, len(numbers), false).By; strings.EqualFold(name, theirName) {
						if o.factor {
							want++
						}
						if strings.HasPrefix(o.name, "translate") {
							want = math.Trunc(want)
						}
						if got != want {
							t.Errorf("policy %d, %s, %d of %d: %v, and %v of torchvision", p, o.name, i, len(numbers), got, want)
						}
					}
				}
			}
		}
	}
}
