package loader

import (
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestReads: which views each loader can read, and why not.
func TestReads(t *testing.T) {
	registry := codecs.Default(transcode.Limits{})
	jpeg, mixed := []string{".jpeg"}, []string{".jpg", ".png", ".webp"}
	for _, test := range []struct {
		reader, view string
		extensions   []string
		want         string // in the answer; empty: it can
	}{
		{"torch", "bmp", jpeg, ""}, {"torch", "ppm", jpeg, ""}, {"torch", "bmp-own", mixed, ""},
		{"torch", "npy", jpeg, "torchvision's ImageFolder cannot read the NPY files of npy"},
		{"torch", "l3", jpeg, "the L3 files of l3"},
		{"timm", "bmp", jpeg, "timm does not find the .bmp files of bmp: it goes by the extensions .png, .jpg, .jpeg"},
		{"timm", "bmp-own", jpeg, ""}, {"timm", "ppm-own", jpeg, ""}, {"timm", "png", jpeg, ""}, {"timm", "resize256-jpeg90", jpeg, ""},
		{"timm", "bmp-own", mixed, "does not find the .webp files of bmp-own"},
		{"keras", "bmp", jpeg, ""}, {"keras", "bmp-own", jpeg, ""},
		{"keras", "ppm-own", jpeg, "cannot read the PNM files of ppm-own: it decodes JPEG, PNG, BMP and GIF"},
		{"keras", "bmp-own", mixed, "does not find the .webp"}, {"keras", "bmp", mixed, ""},
		{"yolo", "ppm-own", jpeg, "Ultralytics cannot read the PNM files"}, {"yolo", "bmp-own", mixed, ""},
		{"dali", "ppm", jpeg, ""}, {"dali", "bmp-own", jpeg, ""}, {"dali", "npy", jpeg, "cannot read the NPY"},
		{"opencv", "ppm", jpeg, ""}, {"opencv", "npy", jpeg, "OpenCV's imread cannot read the NPY"},
		{"hf", "ppm", jpeg, ""}, {"hf", "bmp", mixed, ""},
		{"torchvision-io", "bmp-own", jpeg, "torchvision.io or TorchCodec cannot read the BMP files of bmp-own: it decodes JPEG and PNG"},
		{"torchvision-io", "stored-bmp", jpeg, "cannot read the BMP files of stored-bmp"},
		{"torchvision-io", "resize256-jpeg90-own", mixed, ""}, {"torchvision-io", "png", jpeg, ""},
	} {
		r, ok := FindReader(test.reader)
		p, err := registry.Parse(test.view)
		if !ok || err != nil {
			t.Fatal(test, err)
		}
		if got := r.Reads(p, test.extensions); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s, %s of %v: %q, want %q", test.reader, test.view, test.extensions, got, test.want)
		}
	}
	// What needs no decoder of its own everyone reads.
	for _, r := range Readers {
		for _, view := range []string{transcode.Original, "scan5", "baseline", "resize256-png-own"} {
			p, err := registry.Parse(view)
			testenv.Must(t, err)
			if why := r.Reads(p, jpeg); why != "" {
				t.Errorf("%s, %s: %s", r.Name, view, why)
			}
		}
	}
	if _, ok := FindReader("caffe"); ok || !slices.Contains(ReaderNames(), "yolo") {
		t.Error(ReaderNames())
	}
	if got := Extensions([]string{"a/b.JPEG", "c.png", "d.jpeg", "e"}); !slices.Equal(got, []string{".jpeg", ".png", ""}) {
		t.Error(got)
	}
}
