package loader

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestCannot: what is said of a view that cannot be read, and what to write instead.
func TestCannot(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	const turns = " drops the EXIF orientation of 2 samples, by which the loader turns pictures; write upright-"
	for _, test := range []struct {
		reader, view string
		turned       int
		want         string
	}{
		{"hf", "bmp-own", 2, "bmp-own" + turns + "bmp-own"}, {"opencv", "resize256-ppm", 2, "resize256-ppm" + turns + "resize256-ppm"},
		{"yolo", "stored-bmp", 2, "stored-bmp" + turns + "bmp"}, {"dali", "npy", 2, "DALI's file reader cannot read the NPY files of npy: it decodes JPEG, PNG, BMP, PNM, TIFF and WebP"},
		{"hf", "upright-bmp-own", 2, ""}, {"hf", "png", 2, ""}, {"hf", "scan5", 2, ""}, {"hf", "resize256-jpeg90", 2, ""},
		{"torch", "bmp-own", 2, ""}, {"keras", "bmp-own", 2, ""}, {"", "bmp-own", 2, ""},
		{"timm", "bmp", 0, "timm does not find the .bmp files of bmp: it goes by the extensions .png, .jpg, .jpeg; write bmp-own"},
		{"yolo", "ppm-own", 0, "Ultralytics cannot read the PNM files of ppm-own: it decodes JPEG, PNG, BMP, TIFF and WebP"},
		{"hf", "ppm-own", 0, ""},
		{"", "npy", 0, ""},
	} {
		p, err := r.Parse(test.view)
		testenv.Must(t, err)
		if got := NewReading(test.reader, []string{".jpg"}, test.turned).Cannot(p); got != test.want {
			t.Errorf("%s, %s: %q, want %q", test.reader, test.view, got, test.want)
		}
	}
	for view, want := range map[string]string{
		"stored-bmp": "",
		"stored-ppm": "Keras' image_dataset_from_directory cannot read the PNM files of stored-ppm: it decodes JPEG, PNG, BMP and GIF; name the loader with --for, or the view with --views",
	} {
		if got := NewReading("", []string{".webp"}, 0).Uncommon(r, view); got != want {
			t.Errorf("%s: %q, want %q", view, got, want)
		}
		if got := NewReading("torch", nil, 0).Uncommon(r, view); got != "" {
			t.Errorf("for torch, %s: %q", view, got)
		}
	}
	views := []string{"original", "bmp-own"}
	const usual = "the views are for loaders that read all of them: torch, timm, keras, yolo, dali, hf, opencv; not for torchvision-io (--for changes that)"
	if got := NewReading("", []string{".jpg"}, 0).Assumed(r, views); got != usual {
		t.Error(got)
	}
	if got := NewReading("keras", []string{".jpg"}, 0).Assumed(r, views); got != "the views are some that Keras' image_dataset_from_directory reads (--for keras)" {
		t.Error(got)
	}
	if got := NewReading("", nil, 0).Assumed(r, views[:1]); got != "" {
		t.Error(got)
	}
}

func TestEvenly(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	for n, want := range map[int][]string{2: {"a", "d"}, 3: {"a", "c", "e"}, 6: names, 9: names} {
		if diff := cmp.Diff(want, Evenly(names, n)); diff != "" {
			t.Errorf("%d: %s", n, diff)
		}
	}
}

// pillow runs a line of Python with an interpreter that has Pillow.
func pillow(t *testing.T, code string, args ...string) string {
	t.Helper()
	python, err := findPython(t.Context(), "", "PIL")
	if err != nil {
		t.Fatalf("%v (Debian, Ubuntu: python3-torchvision)", err)
	}
	out, err := exec.Command(python, append([]string{"-c", code}, args...)...).Output()
	if err != nil {
		t.Fatalf("%s: %v", python, err)
	}
	return string(out)
}
