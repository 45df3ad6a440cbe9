package fs

import (
	"bytes"
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/dataset"
	"github.com/pipefs/pipefs/internal/produce"
)

// TestReadFile reads files as the mount shows them, in both modes, without a mount.
func TestReadFile(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "b/c"), 0o755))
	text := bytes.Repeat([]byte("0123456789"), 30_000)
	must(t, os.WriteFile(filepath.Join(root, "b/c/labels.txt"), text, 0o644))
	must(t, os.WriteFile(filepath.Join(root, "b/empty.txt"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(root, "b/a.jpg"), []byte("a picture"), 0o644))
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		d, err := dataset.Open(root, dataset.Options{})
		must(t, err)
		defer d.Close()
		f, err := New(Options{Registry: testRegistry(), Producer: &fakeProducer{Dataset: d, open: map[produce.Key]*fakeContent{}, memfd: mode == DaemonCache}, Cache: mode, Current: "bmp"})
		must(t, err)
		asked := int64(0)
		room := func(n int64) error { asked = n; return nil }
		for path, want := range map[string][]byte{"original/b/c/labels.txt": text, "bmp/b/c/labels.txt": text, "bmp/b/empty.txt": {}, "original/b/a.jpg": []byte("a picture")} {
			got, err := f.ReadFile(t.Context(), path, room)
			if err != nil || !bytes.Equal(got, want) || asked != int64(len(want)) {
				t.Errorf("%s: %d bytes of %d, %d asked: %v", path, len(got), len(want), asked, err)
			}
		}
		made, err := f.ReadFile(t.Context(), "bmp/b/a.bmp", room)
		if under, again := f.ReadFile(t.Context(), "bmp/b/a.jpg", room); err != nil || again != nil || !bytes.Equal(made, under) || int64(len(made)) != asked {
			t.Errorf("a.bmp: %v; a.jpg: %v; %d and %d bytes", err, again, len(made), len(under))
		}
		for _, path := range []string{"bmp/b/none.bmp", "bmp/../b", "nothing/b", "", "bmp//b", "/bmp/b/a.bmp"} {
			if b, err := f.ReadFile(t.Context(), path, room); !errors.Is(err, iofs.ErrNotExist) {
				t.Errorf("%q: %d bytes, %v", path, len(b), err)
			}
		}
		for _, path := range []string{"bmp", "bmp/b", "current", "current/b/a.bmp", "bmp/b/a.bmp/x"} {
			if b, err := f.ReadFile(t.Context(), path, room); err == nil {
				t.Errorf("%q: %d bytes", path, len(b))
			}
		}
		full := errors.New("full")
		if _, err := f.ReadFile(t.Context(), "original/b/a.jpg", func(int64) error { return full }); !errors.Is(err, full) {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.ReadFile(ended, "bmp/b/none.bmp", room); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// A file that changed is read as it is now.
		must(t, os.WriteFile(filepath.Join(root, "b/a.jpg"), []byte("another picture"), 0o644))
		if got, err := f.ReadFile(t.Context(), "original/b/a.jpg", room); err != nil || string(got) != "another picture" {
			t.Errorf("%q, %v", got, err)
		}
		must(t, os.WriteFile(filepath.Join(root, "b/a.jpg"), []byte("a picture"), 0o644))
	}
}
