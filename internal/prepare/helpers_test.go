package prepare

import (
	"bytes"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

var registry = codecs.Default(transcode.Limits{})

func view(t testing.TB, spec string) transcode.Pipeline {
	t.Helper()
	v, err := registry.Parse(spec)
	testenv.Must(t, err)
	return v
}

// photo is a picture in the format of a name's extension.
func photo(t testing.TB, name string, width, height int, seed uint64) []byte {
	t.Helper()
	var file bytes.Buffer
	img := pictures.Photo(width, height, seed)
	if filepath.Ext(name) == ".png" {
		testenv.Must(t, png.Encode(&file, img))
	} else {
		testenv.Must(t, jpeg.Encode(&file, img, nil))
	}
	return file.Bytes()
}

func write(t testing.TB, root, name string, data []byte) {
	t.Helper()
	full := filepath.Join(root, name)
	testenv.Must(t, os.MkdirAll(filepath.Dir(full), 0o755))
	testenv.Must(t, os.WriteFile(full, data, 0o644))
}

// openDataset makes two JPEG files, a PNG file and one that is no sample.
func openDataset(t testing.TB, limit source.Limit) *source.Directory {
	t.Helper()
	root := t.TempDir()
	for i, name := range []string{"a.jpg", "b.jpg", "d/c.png"} {
		write(t, root, name, photo(t, name, 120+i, 90, uint64(i)))
	}
	write(t, root, "d/labels.json", []byte("{}"))
	d, err := source.Open(root, source.Options{Limit: limit})
	testenv.Must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func openOverlay(t testing.TB) *store.Overlay {
	t.Helper()
	o, err := store.OpenOverlay(filepath.Join(t.TempDir(), "overlay"), store.OverlayOptions{})
	testenv.Must(t, err)
	return o
}

// packed packs a dataset and opens the store.
func packed(t testing.TB, root, dir string) *store.Store {
	t.Helper()
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	what := pack.Dataset{Registry: registry, Dir: d}
	report, err := store.Pack(t.Context(), dir, what, what, store.PackOptions{})
	if err != nil || report.Failed > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	return opened(t, dir)
}

func opened(t testing.TB, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	testenv.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func serving(t testing.TB, o serve.Options) *serve.Server {
	t.Helper()
	o.Registry = registry
	s, err := serve.New(o)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, s.Close()) })
	return s
}
