package raster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/png"
)

// steps writes what Pillow and torchvision make of the pictures in a list:
// [path, name of the result, step, argument].
const steps = `
import json, sys
import numpy as np
from PIL import Image, ImageOps

questions = json.load(open(sys.argv[1]))
if {"resize", "nearest", "crop", "random"} & {q[2] for q in questions}: # importing it takes seconds
    from torchvision import transforms
    import torchvision.transforms.functional as TF
    from torchvision.transforms import InterpolationMode

def convert(im): # as the step does before it mixes pixels
    if im.mode == "P":
        return im.convert("RGBA" if "transparency" in im.info else "RGB")
    return im.convert("L") if im.mode == "1" else im

for path, out, step, arg in questions:
    im = Image.open(path)
    if step == "resize":
        im = transforms.Resize(arg)(convert(im))
    elif step == "exact":
        im = convert(im).resize(arg, Image.BILINEAR)
    elif step == "nearest":
        im = transforms.Resize(arg, InterpolationMode.NEAREST)(im)
    elif step == "nearestexact":
        im = im.resize(arg, Image.NEAREST)
    elif step == "crop":
        im = transforms.CenterCrop(arg)(im)
    elif step == "random":
        name, x, y, width, height, flip, side, cubic = arg
        if name == "rrc":
            kind = transforms.InterpolationMode.BICUBIC if cubic else transforms.InterpolationMode.BILINEAR
            im = TF.resized_crop(im, y, x, height, width, [side, side], kind)
        elif name == "randcrop":
            im = im.crop((x, y, x + width, y + height)) # what lies outside is 0
        elif name == "pad":
            im = TF.pad(im, side)
        elif flip:
            im = TF.hflip(im)
    elif step == "grey":
        im = im.convert("LA" if im.mode == "RGBA" else "L")
    elif step == "upright":
        im.getexif()[0x112] = arg
        exif = Image.Exif()
        exif[0x112] = arg
        im.info["exif"] = exif.tobytes()
        im._exif = None
        im = ImageOps.exif_transpose(im)
    a = np.asarray(im)
    if a.dtype == bool: # Pillow's true is 255
        a = a.view(np.uint8) != 0
    if step == "center":
        a = a.astype(np.float32) / np.float32(arg) - np.float32(1)
    elif step == "float32":
        a = a.astype(np.float32)
    elif step == "chw":
        a = a.transpose(2, 0, 1) if a.ndim == 3 else a[None]
    np.save(out, np.ascontiguousarray(a))
`

// question is one call of a step, and what we answer.
type question struct {
	px   *transcode.Pixels
	step string
	arg  any
	got  *transcode.Pixels
}

func (q *question) String() string {
	return fmt.Sprintf("%s %v of %v %dx%d", q.step, q.arg, q.px.Mode, q.px.Width, q.px.Height)
}

// ask compares our answers with theirs.
func ask(t *testing.T, questions []question) {
	t.Helper()
	dir := t.TempDir()
	sources := map[*transcode.Pixels]string{}
	var list [][4]any
	var results []string
	for i, q := range questions {
		path := sources[q.px]
		if path == "" {
			b, err := png.Encode(t.Context(), q.px)
			testenv.Must(t, err)
			path = filepath.Join(dir, fmt.Sprintf("s%d.png", len(sources)))
			sources[q.px] = path
			testenv.Must(t, os.WriteFile(path, b, 0o644))
		}
		results = append(results, filepath.Join(dir, fmt.Sprintf("%d.npy", i)))
		list = append(list, [4]any{path, results[i], q.step, q.arg})
	}
	b, err := json.Marshal(list)
	testenv.Must(t, err)
	listPath := filepath.Join(dir, "list.json")
	testenv.Must(t, os.WriteFile(listPath, b, 0o644))
	pillow.Run(t, steps, listPath)
	for i, a := range pillow.Open(t, results...) {
		q := &questions[i]
		shape := []int{q.got.Height, q.got.Width}
		switch c := q.got.Mode.Channels(); {
		case q.got.Planar:
			shape = []int{c, q.got.Height, q.got.Width}
		case c > 1:
			shape = append(shape, c)
		}
		if !slices.Equal(a.Shape, shape) {
			t.Errorf("%v: shape %v, want %v", q, shape, a.Shape)
			continue
		}
		data := a.Data
		if a.DType == "<i4" { // Pillow's 16 bits
			data = nil
			for _, v := range a.Values() {
				data = append(data, byte(v), byte(v>>8))
			}
		}
		if !bytes.Equal(data, q.got.Pix) {
			n := 0
			for j := range min(len(data), len(q.got.Pix)) {
				if data[j] != q.got.Pix[j] {
					n++
				}
			}
			t.Errorf("%v: %d of %d bytes differ (we have %d)", q, n, len(data), len(q.got.Pix))
		}
	}
}

// run applies a kind as a plan does.
func run(t testing.TB, k *transcode.Kind, px *transcode.Pixels, arg int, mask bool) *transcode.Pixels {
	t.Helper()
	in := shapeOf(px)
	in.Mask = mask
	want, ok := k.Shape(in, arg)
	if !ok {
		out := *px
		return &out
	}
	out, err := k.Apply(context.Background(), transcode.Payload{Shape: in, Pixels: px}, transcode.Call{Step: transcode.Step{Kind: k, Arg: arg}, Nearest: mask})
	testenv.Must(t, err)
	got := out.Pixels
	if got.Width != want.Width || got.Height != want.Height || got.Mode != want.Mode || got.Type != want.Type || len(got.Pix) != got.Len() {
		t.Fatalf("%s%d of %v %dx%d: %v %dx%d, promised %v %dx%d", k.Name, arg, px.Mode, px.Width, px.Height,
			got.Mode, got.Width, got.Height, want.Mode, want.Width, want.Height)
	}
	return got
}

func shapeOf(px *transcode.Pixels) transcode.Shape {
	transparent := false
	for i := 3; i < len(px.Palette); i += 4 {
		transparent = transparent || px.Palette[i] != 255
	}
	return transcode.Shape{
		Info: transcode.Info{
			Format: transcode.PNG, Mode: px.Mode, Width: px.Width, Height: px.Height,
			Orientation: px.Meta.Orientation, Transparent: transparent,
		},
		Stage: transcode.Picture, Type: px.Type,
	}
}

// pictures is one of each mode that Pillow has, in all sizes.
func pictures() []*transcode.Pixels {
	var list []*transcode.Pixels
	for _, m := range []transcode.Mode{transcode.ModeBit, transcode.ModeL, transcode.ModeLA, transcode.ModeP, transcode.ModeRGB, transcode.ModeRGBA} {
		for _, size := range append(pillow.Sizes, [2]int{100, 75}, [2]int{33, 200}) {
			px := pillow.Sample(m, size[0], size[1])
			list = append(list, px)
			if m == transcode.ModeP {
				clear := *px
				clear.Palette = bytes.Clone(px.Palette)
				for i := 3; i < len(clear.Palette); i += 12 {
					clear.Palette[i] = byte(i)
				}
				list = append(list, &clear)
			}
		}
	}
	return list
}

// scalingTo is a step that gives every picture one size.
func scalingTo(width, height int) *transcode.Kind {
	return Scaling("exact", "exact1", func(_, _, _ int) (int, int) { return width, height })
}

// TestResize compares with torchvision's Resize and with Pillow's resize, where
// both sides may change on their own.
func TestResize(t *testing.T) {
	var q []question
	for _, px := range pictures() {
		for _, side := range []int{1, 2, 5, 16, 17, 48, 75, 97} {
			q = append(q, question{px, "resize", side, toMode(run(t, Resize(), px, side, false), mixable(px.Mode, shapeOf(px).Transparent))})
		}
		for _, size := range [][2]int{{1, 1}, {3, 50}, {50, 3}, {px.Width, 20}, {20, px.Height}} {
			q = append(q, question{px, "exact", size, toMode(run(t, scalingTo(size[0], size[1]), px, 0, false), mixable(px.Mode, shapeOf(px).Transparent))})
		}
	}
	t.Logf("%d questions", len(q))
	ask(t, q)
}

// TestResizeLarge compares at the sizes of photographs, and beyond the number
// of weights that the fast path is sure of.
func TestResizeLarge(t *testing.T) {
	testenv.Slow(t)
	var q []question
	for _, c := range [][3]int{{500, 375, 256}, {375, 500, 224}, {320, 240, 241}, {3000, 40, 7}, {20001, 2, 1}, {2, 20001, 1}} {
		for _, m := range []transcode.Mode{transcode.ModeL, transcode.ModeRGB, transcode.ModeRGBA} {
			px := pillow.Sample(m, c[0], c[1])
			q = append(q, question{px, "resize", c[2], run(t, Resize(), px, c[2], false)})
		}
	}
	white := pillow.Sample(transcode.ModeL, 3, 40000)
	for i := range white.Pix {
		white.Pix[i] = 255
	}
	q = append(q, question{white, "exact", [2]int{3, 2}, run(t, scalingTo(3, 2), white, 0, false)})
	ask(t, q)
}

// TestNearest compares masks with torchvision's Resize(NEAREST).
func TestNearest(t *testing.T) {
	testenv.Slow(t)
	var q []question
	for _, px := range append(pictures(), pillow.Sample(transcode.ModeI16, 17, 33)) {
		for _, side := range []int{1, 2, 5, 16, 17, 48, 75, 97, 151} {
			q = append(q, question{px, "nearest", side, run(t, Resize(), px, side, true)})
		}
		for _, size := range [][2]int{{1, 1}, {3, 50}, {px.Width * 7, 20}, {200, 199}} {
			q = append(q, question{px, "nearestexact", size, Nearest(px, size[0], size[1])})
		}
	}
	ask(t, q)
}

func TestCrop(t *testing.T) {
	var q []question
	for _, px := range pictures() {
		for _, side := range []int{1, 2, 3, 4, 5, 7, 16, 17, 18, 32, 33, 34, 47, 48, 49, 64, 75, 76, 100, 101, 130} {
			if px.Mode == transcode.ModeLA { // torchvision cannot pad it
				continue
			}
			q = append(q, question{px, "crop", side, run(t, Crop(), px, side, false)})
		}
	}
	ask(t, q)
}

func TestGrey(t *testing.T) {
	var q []question
	for _, px := range pictures() {
		// Pillow drops the alpha of a palette.
		if px.Mode == transcode.ModeP && shapeOf(px).Transparent {
			continue
		}
		if px.Mode == transcode.ModeLA {
			continue
		}
		q = append(q, question{px, "grey", 0, run(t, Grey(), px, 0, false)})
	}
	ask(t, q)
}

func TestUpright(t *testing.T) {
	var q []question
	for _, px := range append(pictures(), pillow.Sample(transcode.ModeI16, 17, 33)) {
		for orientation := 1; orientation <= 8; orientation++ {
			turned := *px
			turned.Meta.Orientation = uint8(orientation)
			q = append(q, question{px, "upright", orientation, run(t, UprightKind(), &turned, 0, false)})
		}
	}
	ask(t, q)
}

func TestTensors(t *testing.T) {
	var q []question
	sixteen := pillow.Sample(transcode.ModeI16, 17, 33)
	for _, px := range append(pictures(), sixteen) {
		middle := 127.5
		if px.Type == transcode.Uint16 {
			middle = 32767.5
		}
		if px.Mode != transcode.ModeP && px.Mode != transcode.ModeBit {
			q = append(q, question{px, "center", middle, run(t, Center(), px, 0, false)})
		}
		q = append(q, question{px, "float32", 0, run(t, Float32(), px, 0, false)})
		q = append(q, question{px, "chw", 0, run(t, CHW(), px, 0, false)})
	}
	ask(t, q)
}
