package loader

import (
	"fmt"
	"image"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// tree writes n pictures, JPEG and PNG in turn, into two classes, and returns the
// directory and their names.
func tree(t *testing.T, n int) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	for i := range n {
		img := pictures.Photo(96+i, 80, uint64(i))
		name := fmt.Sprintf("class%d/%03d.jpg", i%2, i)
		if i%4 == 3 {
			name = fmt.Sprintf("class%d/%03d.png", i%2, i)
		}
		testenv.Must(t, pictures.Write(filepath.Join(dir, name), img))
		names = append(names, name)
	}
	return dir, names
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	testenv.Must(t, os.WriteFile(name, data, 0o644))
}

// bytesOf is how long files are together.
func bytesOf(t *testing.T, dir string, names []string) (n int64) {
	t.Helper()
	for _, name := range names {
		st, err := os.Stat(filepath.Join(dir, name))
		testenv.Must(t, err)
		n += st.Size()
	}
	return n
}

// check wants an epoch of these files, and figures that make sense.
func check(t *testing.T, e Epoch, samples int, bytes int64) {
	t.Helper()
	if e.Samples != samples || e.Bytes != bytes {
		t.Errorf("%d samples of %d bytes, want %d of %d", e.Samples, e.Bytes, samples, bytes)
	}
	if e.Seconds <= 0 || e.Rate <= 0 || e.CPU <= 0 {
		t.Errorf("%+v", e)
	}
}

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
