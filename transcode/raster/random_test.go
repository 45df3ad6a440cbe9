package raster

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// setting is one way to call RandomResizedCrop, and a picture's size.
type setting struct {
	width, height int
	words         [transcode.MaxWords]transcode.Range
	scale, ratio  string // for torchvision
}

var settings = []setting{
	{500, 375, [transcode.MaxWords]transcode.Range{}, "(0.08, 1.0)", "(3/4, 4/3)"},
	// DINO's local crops
	{333, 500, [transcode.MaxWords]transcode.Range{scaleWord: {From: 5, To: 40, Given: true}}, "(0.05, 0.4)", "(3/4, 4/3)"},
	// A long picture, in which a box often does not fit.
	{900, 200, [transcode.MaxWords]transcode.Range{scaleWord: {From: 30, To: 100, Given: true}, ratioWord: {From: 50, To: 200, Given: true}}, "(0.3, 1.0)", "(0.5, 2.0)"},
}

// getParams asks torchvision for boxes: y, x, height, width, four bytes each.
const getParams = `
import sys
import numpy as np, torch
from PIL import Image
from torchvision import transforms
n = int(sys.argv[1])
torch.manual_seed(1)
torch.set_num_threads(1)
im = Image.new("L", (int(sys.argv[2]), int(sys.argv[3])))
boxes = [transforms.RandomResizedCrop.get_params(im, eval(sys.argv[4]), eval(sys.argv[5])) for _ in range(n)]
sys.stdout.buffer.write(np.array(boxes, "<i4").tobytes())
`

// kolmogorov is the largest distance between the distributions of two samples.
func kolmogorov(a, b []float64) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	most := 0.0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		at := min(a[i], b[j])
		for i < len(a) && a[i] == at {
			i++
		}
		for j < len(b) && b[j] == at {
			j++
		}
		most = max(most, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return most
}

// figures are what of boxes is compared: place, size and shape.
func figures(boxes []transcode.Choice, s setting) map[string][]float64 {
	all := map[string][]float64{}
	for _, b := range boxes {
		for name, v := range map[string]float64{
			"x": float64(b.X), "y": float64(b.Y), "width": float64(b.Width), "height": float64(b.Height),
			"ratio": float64(b.Width) / float64(b.Height),
			// Where it lies in the room that it has.
			"place": float64(b.X) / float64(max(1, s.width-b.Width)),
		} {
			all[name] = append(all[name], v)
		}
	}
	return all
}

// differing names the figures of two samples of boxes that cannot come from the same
// distribution: by the two-sample test of Kolmogorov and Smirnov, at a level of one in a
// million.
func differing(a, b []transcode.Choice, s setting) (names []string) {
	limit := math.Sqrt(-math.Log(1e-6/2)/2) * math.Sqrt(1/float64(len(a))+1/float64(len(b)))
	theirs := figures(b, s)
	for name, ours := range figures(a, s) {
		if kolmogorov(ours, theirs[name]) > limit {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestDrawnBoxes compares the boxes of `rrc` with those of torchvision.
func TestDrawnBoxes(t *testing.T) {
	testenv.Slow(t)
	n := 2000
	if testenv.Soak() {
		n = 100_000
	}
	kind := RandomResizedCrop()
	for _, s := range settings {
		raw := pillow.Run(t, getParams, fmt.Sprint(n), fmt.Sprint(s.width), fmt.Sprint(s.height), s.scale, s.ratio)
		if len(raw) != 16*n {
			t.Fatalf("%d bytes", len(raw))
		}
		var theirs, ours, frozen, centred []transcode.Choice
		in := transcode.Shape{Info: transcode.Info{Width: s.width, Height: s.height, Mode: transcode.ModeRGB}}
		step := transcode.Step{Kind: kind, Arg: 224, Words: s.words}
		for i := range n {
			v := func(k int) int { return int(int32(binary.LittleEndian.Uint32(raw[16*i+4*k:]))) }
			theirs = append(theirs, transcode.Choice{Y: v(0), X: v(1), Height: v(2), Width: v(3)})
			d := transcode.Draw{Seed: 1, Epoch: uint64(i / 100), Path: fmt.Sprintf("n/%d.jpg", i%100)}
			box := kind.Draw(in, step, d.Random(kind.Name))
			ours = append(ours, box)
			frozen = append(frozen, ours[0])
			box.X, box.Y = (s.width-box.Width)/2, (s.height-box.Height)/2
			centred = append(centred, box)
		}
		if names := differing(ours, theirs, s); names != nil {
			t.Errorf("scale %s, ratio %s: another distribution of %v", s.scale, s.ratio, names)
		}
		// The test can tell.
		for what, wrong := range map[string][]transcode.Choice{"frozen": frozen, "centred": centred} {
			if differing(wrong, theirs, s) == nil {
				t.Errorf("scale %s, ratio %s: boxes that are %s pass", s.scale, s.ratio, what)
			}
		}
	}
}

// TestLogExp compares with package math.
func TestLogExp(t *testing.T) {
	for x := 0.01; x <= 100; x *= 1.01 {
		if got, want := log(x), math.Log(x); math.Abs(got-want) > 1e-13 {
			t.Errorf("log %v: %v, want %v", x, got, want)
		}
		if got := exp(math.Log(x)); math.Abs(got-x) > 1e-13*x {
			t.Errorf("exp %v: %v", math.Log(x), got)
		}
	}
}

// TestFlips wants half of the draws to be mirrored, and each on its own.
func TestFlips(t *testing.T) {
	const n = 100_000
	kind, flips, same := HFlip(), 0, 0
	last := false
	for i := range n {
		c := kind.Draw(transcode.Shape{}, transcode.Step{Kind: kind}, transcode.Draw{Epoch: uint64(i), Path: "a"}.Random(kind.Name))
		if c.Flip {
			flips++
		}
		if c.Flip == last {
			same++
		}
		last = c.Flip
	}
	// five standard deviations
	const most = 5 * 158
	if flips < n/2-most || flips > n/2+most || same < n/2-most || same > n/2+most {
		t.Errorf("%d of %d are mirrored, %d as the one before", flips, n, same)
	}
}

// TestRandomPixels compares the pixels of random steps, given what was drawn, with those
// of torchvision.
func TestRandomPixels(t *testing.T) {
	testenv.Slow(t)
	var q []question
	add := func(px *transcode.Pixels, draws int) {
		for i := range draws {
			d := transcode.Draw{Seed: 7, Epoch: uint64(i), Path: fmt.Sprint(px.Mode, px.Width, px.Height)}
			for j, k := range []*transcode.Kind{RandomResizedCrop(), RandomResizedCrop(), RandomCrop(), HFlip()} {
				step := transcode.Step{Kind: k, Arg: 32 + 16*i}
				step.Words[cubicWord].Given = j == 1
				choice := k.Draw(shapeOf(px), step, d.Random(k.Name))
				in := shapeOf(px)
				if _, ok := k.Shape(in, step.Arg); !ok {
					continue
				}
				out, err := k.Apply(t.Context(), transcode.Payload{Shape: in, Pixels: px}, transcode.Call{Step: step, Choice: choice})
				testenv.Must(t, err)
				q = append(q, question{px, "random", []any{k.Name, choice.X, choice.Y, choice.Width, choice.Height, choice.Flip, step.Arg, step.Words[cubicWord].Given}, out.Pixels})
			}
		}
		q = append(q, question{px, "random", []any{"pad", 0, 0, 0, 0, false, 5, false}, run(t, Pad(), px, 5, false)})
	}
	for _, px := range pictures() {
		if px.Mode == transcode.ModeRGB || px.Mode == transcode.ModeRGBA || px.Mode == transcode.ModeL {
			add(px, 2)
		}
	}
	for _, size := range [][2]int{{500, 375}, {375, 500}, {20, 640}} {
		add(pillow.Sample(transcode.ModeRGB, size[0], size[1]), 6)
	}
	t.Logf("%d questions", len(q))
	ask(t, q)
}
