package codecs_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
	"github.com/pipefs/pipefs/transcode/l3"
	"github.com/pipefs/pipefs/transcode/png"
)

var update = flag.Bool("update", false, "write testdata/views.txt anew")

var goldenViews = strings.Fields(`scan1 scan5 scan10 baseline bmp ppm npy png l3 jpeg75 half-bmp quarter-npy eighth-png
	upright-png resize16-bmp resize16-npy resize16-jpeg90 crop24-png grey-npy scan2-bmp float32-npy center-chw-npy rgb-npy rgb-resize16-png`)

// TestGoldenViews makes views of testdata/pictures, in memory that others have used before, and
// wants the bytes that were made when testdata/views.txt was written. A step whose bytes change needs another ID, as stores hold
// what the former one made. TestGoldenPixels knows that the pixels are right.
func TestGoldenViews(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	got := map[[2]string]string{}
	var lines strings.Builder
	for _, spec := range goldenViews {
		v, err := r.Parse(spec)
		testenv.Must(t, err)
		for _, path := range testenv.Pictures(t, "*") {
			name := filepath.Base(path)
			src := testenv.Picture(t, name)
			info, err := r.ProbeBytes(src)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			plan := r.Plan(v, info, transcode.Auto)
			if plan.Unchanged() {
				continue
			}
			allocated := 0
			out, err := plan.RunAfter(t.Context(), 0, src, func(n int64) []byte {
				allocated++
				return bytes.Repeat([]byte{0xdb}, int(n))
			})
			if err != nil {
				t.Errorf("%s of %s: %v", spec, name, err)
				continue
			}
			// No result lies in memory that the next picture gets.
			next := transcode.Lend(1)
			for i := range next[:cap(next)] {
				next[:cap(next)][i] = 0xdb
			}
			// Pixels of these go right to where they are wanted.
			direct := info.Mode == transcode.ModeRGB && (info.Format == transcode.JPEG || info.Format == transcode.PNG)
			if direct && (spec == "bmp" || spec == "ppm" || spec == "npy") && allocated != 1 {
				t.Errorf("%s of %s: %d allocations by the caller's", spec, name, allocated)
			}
			if size, ok := plan.Size(); ok && size != int64(len(out)) {
				t.Errorf("%s of %s: %d bytes, the plan says %d", spec, name, len(out), size)
			}
			got[[2]string{spec, name}] = testenv.Digest(out)
			fmt.Fprintln(&lines, spec, name, testenv.Digest(out))
		}
	}
	if *update {
		head := "# view, picture, bytes, first digits of the SHA-256: see README.md\n"
		testenv.Must(t, os.WriteFile(testenv.ViewsFile(t), []byte(head+lines.String()), 0o644))
	}
	if diff := cmp.Diff(testenv.Views(t), got); diff != "" {
		t.Errorf("(-testdata/views.txt +made; go test ./transcode/codecs -run Golden -update writes it):\n%s", diff)
	}
}

// TestGoldenPixels has Pillow read the pictures, and what the lossless views make of them: the
// pixels are the same. L3 files are compared with the pictures that they were made of.
func TestGoldenPixels(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	show := func(spec string, src []byte) []byte {
		t.Helper()
		v, err := r.Parse(spec)
		testenv.Must(t, err)
		info, err := r.ProbeBytes(src)
		testenv.Must(t, err)
		out, err := r.Plan(v, info, transcode.Auto).Run(t.Context(), src)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		return out
	}
	dir := t.TempDir()
	var args []string
	for _, path := range testenv.Pictures(t, "*") {
		name := filepath.Base(path)
		src, truth := testenv.Picture(t, name), path
		if stem, isL3 := strings.CutSuffix(name, ".l3"); isL3 {
			truth = filepath.Join(filepath.Dir(path), stem[:strings.LastIndex(stem, "_")]+".png")
		}
		for _, specs := range [][]string{{"npy"}, {"bmp"}, {"ppm"}, {"png"}, {"l3", "npy"}, {"scan10", "npy"}, {"baseline", "png"}} {
			made := src
			for _, spec := range specs {
				made = show(spec, made)
			}
			if bytes.Equal(made, src) {
				continue
			}
			out := filepath.Join(dir, fmt.Sprint(len(args)))
			testenv.Must(t, os.WriteFile(out, made, 0o600))
			args = append(args, truth, out)
		}
	}
	list := filepath.Join(dir, "list")
	testenv.Must(t, os.WriteFile(list, []byte(strings.Join(args, "\n")), 0o600))
	t.Logf("%s", pillow.Run(t, samePixels, list))
}

// samePixels compares files, two by two. A JPEG is RGB for whoever asks for that. Of colours of
// 16 bits Pillow reads the upper 8, but it scales those of a PPM file.
const samePixels = `
import sys
import numpy as np
from PIL import Image

def read(path):
    if open(path, "rb").read(6) == b"\x93NUMPY":
        return np.load(path)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB") if image.format in ("JPEG", "MPO") else image)

paths = open(sys.argv[1]).read().split("\n")
wrong = 0
for source, made in zip(paths[::2], paths[1::2]):
    a, b = read(source), read(made)
    if b.dtype == np.uint16 and a.dtype == np.uint8:
        b = (b >> 8).astype(np.uint8)
    elif "16.png" in source and open(made, "rb").read(2) == b"P6":
        continue
    if not np.array_equal(a, b):
        wrong += 1
        print(source, a.shape, a.dtype, b.shape, b.dtype, file=sys.stderr)
print(len(paths) // 2, "files")
sys.exit(wrong > 0)
`

// TestSubstitute checks that every view of pixels is the same, made of a PNG file and
// made of the L3 file that stands for it.
func TestSubstitute(t *testing.T) {
	views := []string{"bmp", "ppm", "npy", "chw-npy", "png", "l3", "grey-npy", "resize9-bmp", "center-chw-npy", "upright-npy"}
	compared := 0
	for _, o := range []l3.Options{{}, {Mode: l3.Fast, Patch: 16}} {
		r := codecs.New(transcode.Limits{}, codecs.Options{L3: o})
		kind := l3.Kind(o)
		for _, k := range r.Kinds() {
			if k.Name == kind.Name {
				kind = k
			}
		}
		for mode := transcode.ModeL; mode <= transcode.ModeRGBA16; mode++ {
			px := pillow.Sample(mode, 37, 21)
			px.Meta.ICC = nil
			px.Meta.EXIF, px.Meta.Orientation = []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"), 6
			src, err := png.Encode(t.Context(), px)
			if err != nil {
				t.Fatal(mode, err)
			}
			info, err := r.ProbeBytes(src)
			if err != nil {
				t.Fatal(mode, err)
			}
			if _, ok := r.SubstituteKey(kind, info); ok != l3.Holds(mode, 2) {
				t.Fatalf("%v: substitute %v", mode, ok)
			}
			if !l3.Holds(mode, 2) {
				continue
			}
			file, err := r.Substitute(t.Context(), kind, info, src)
			if err != nil {
				t.Fatal(mode, err)
			}
			for _, spec := range views {
				view, err := r.Parse(spec)
				testenv.Must(t, err)
				plan := r.Plan(view, info, transcode.Image)
				rest, ok := plan.From(kind)
				if !ok {
					if !plan.Unchanged() {
						t.Errorf("%v, %s: does not begin with decoding", mode, spec)
					}
					continue
				}
				want, err := plan.Run(t.Context(), src)
				if err != nil {
					t.Fatal(mode, spec, err)
				}
				got, err := rest.Run(t.Context(), file)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v, %s: another file, %v", mode, spec, err)
				}
				compared++
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d views compared", compared)
	}
}
