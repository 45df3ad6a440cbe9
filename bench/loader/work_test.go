package loader

import (
	"image"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func TestWorkOf(t *testing.T) {
	registry := codecs.Default(transcode.Limits{})
	for spec, want := range map[string][2]string{
		"rrc224-hflip-npy":              {"rrc224-hflip", "RandomResizedCrop(224), RandomHorizontalFlip()"},
		"scan5-rrc224-hflip-chw-npy":    {"rrc224-hflip", "RandomResizedCrop(224), RandomHorizontalFlip()"},
		"rrc96scale5to40cubic-ppm":      {"rrc96scale5to40cubic", "RandomResizedCrop(96, scale=(0.05, 0.4), interpolation=BICUBIC)"},
		"pad4-randcrop32-hflip-npy":     {"pad4-randcrop32-hflip", "Pad(4), RandomCrop(32), RandomHorizontalFlip()"},
		"resize256-crop224-npy":         {"resize256-crop224", "Resize(256), CenterCrop(224)"},
		"npy":                           {"", ""},
		"resize256-crop224-float32-npy": {"-", ""},
		"upright-rrc224-npy":            {"-", ""},
		"rrc224-grey-npy":               {"-", ""},
	} {
		p, err := registry.ParseRandom(spec)
		testenv.Must(t, err)
		w, key, ok := WorkOf(p)
		if !ok {
			key = "-"
		}
		if key != want[0] || w.String() != want[1] {
			t.Errorf("%s: %q, %s", spec, key, w)
		}
	}
}

// TestTorchWork wants each transform to be known to torchvision, and done: pictures of
// different sizes make no batch otherwise.
func TestTorchWork(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	registry := codecs.Default(transcode.Limits{})
	dir := t.TempDir()
	names := []string{"a/1.jpg", "a/2.jpg", "b/3.png"}
	for i, img := range []image.Image{pictures.Photo(60, 40, 1), pictures.Photo(40, 60, 2), pictures.Photo(30, 30, 3)} {
		testenv.Must(t, pictures.Write(filepath.Join(dir, names[i]), img))
	}
	l := torch(t, 1, 3)
	for _, spec := range []string{"rrc24scale5to40ratio50to200cubic-hflip-npy", "pad4-randcrop50-hflip-npy", "resize24-crop20-npy"} {
		p, err := registry.ParseRandom(spec)
		testenv.Must(t, err)
		w, _, ok := WorkOf(p)
		if !ok {
			t.Fatal(spec)
		}
		if e, err := l.Epoch(t.Context(), Job{Dir: dir, Files: names, Work: &w}); err != nil || e.Samples != 3 {
			t.Errorf("%s: %+v, %v", spec, e, err)
		}
	}
	none := Work{Transforms: []Transform{}}
	if _, err := l.Epoch(t.Context(), Job{Dir: dir, Files: names, Work: &none}); err == nil {
		t.Error("without transforms, pictures of different sizes made a batch")
	}
	if e, err := l.Epoch(t.Context(), Job{Dir: dir, Files: names[:1], Work: &none}); err != nil || e.Samples != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}
