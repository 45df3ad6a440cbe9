package fs

import (
	"bytes"
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// TestReadFile reads files as the mount shows them, in both modes, without a mount.
func TestReadFile(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.MkdirAll(filepath.Join(root, "b/c"), 0o755))
	text := bytes.Repeat([]byte("0123456789"), 30_000)
	testenv.Must(t, os.WriteFile(filepath.Join(root, "b/c/labels.txt"), text, 0o644))
	testenv.Must(t, os.WriteFile(filepath.Join(root, "b/empty.txt"), nil, 0o644))
	testenv.Must(t, os.WriteFile(filepath.Join(root, "b/a.jpg"), []byte("a picture"), 0o644))
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		d, err := source.Open(root, source.Options{})
		testenv.Must(t, err)
		defer d.Close()
		f, err := New(Options{Registry: testRegistry(), Server: &fakeServer{Directory: d, open: map[serve.Key]*fakeContent{}, memfd: mode == DaemonCache}, Cache: mode})
		testenv.Must(t, err)
		testenv.Must(t, f.SetCurrent("bmp"))
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
		testenv.Must(t, os.WriteFile(filepath.Join(root, "b/a.jpg"), []byte("another picture"), 0o644))
		if got, err := f.ReadFile(t.Context(), "original/b/a.jpg", room); err != nil || string(got) != "another picture" {
			t.Errorf("%q, %v", got, err)
		}
		testenv.Must(t, os.WriteFile(filepath.Join(root, "b/a.jpg"), []byte("a picture"), 0o644))
	}
}

// TestRefused wants a view that is refused to be none: not by its name, not by a link, not
// as a list; and what is refused now may be entered later.
func TestRefused(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.jpg"), []byte("a picture"), 0o644))
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	refused := map[string]bool{"original": true, "scan5": true}
	var log bytes.Buffer
	f, err := New(Options{
		Registry: testRegistry(), Server: &fakeServer{Directory: d, open: map[serve.Key]*fakeContent{}}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Refuse: func(v transcode.Pipeline) error {
			if refused[v.String()] {
				return errors.New("there is nothing to show")
			}
			return nil
		},
	})
	testenv.Must(t, err)
	room := func(int64) error { return nil }
	for range 2 {
		for path, there := range map[string]bool{"original/a.jpg": false, "scan5/a.jpg": false, "bmp/a.bmp": true, ".pipefs/lists/scan5.txt": false} {
			if _, err := f.ReadFile(t.Context(), path, room); (err == nil) != there {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if got := strings.Count(log.String(), "there is nothing to show"); got != 2 {
		t.Errorf("explained %d times, want once for each view:\n%s", got, log.String())
	}
	if err := f.SetCurrent("scan5"); err == nil || !strings.Contains(err.Error(), "there is nothing to show") {
		t.Error(err)
	}
	delete(refused, "original")
	if _, err := f.ReadFile(t.Context(), "original/a.jpg", room); err != nil {
		t.Error(err)
	}
}
