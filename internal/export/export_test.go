package export

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// reconstructing returns a registry whose step `scan` is undone by the source itself.
func reconstructing() (*transcode.Registry, *transcode.Kind) {
	r := codecs.Default(transcode.Limits{})
	for _, k := range r.Kinds() {
		if k.Split == nil {
			continue
		}
		split := k.Split
		k.Split = func(ctx context.Context, src []byte, lim transcode.Limits, reconstruction bool) (transcode.Split, error) {
			s, err := split(ctx, src, lim, false)
			if reconstruction {
				s.Reconstruction = src
			}
			return s, err
		}
		k.Restore = func(_ context.Context, _, reconstruction []byte, _ transcode.Limits) ([]byte, error) {
			return reconstruction, nil
		}
		return r, k
	}
	panic("no step is split")
}

// packed is a dataset and a store of it that rebuilds originals.
func packed(t *testing.T, r *transcode.Registry) (root, dir string) {
	t.Helper()
	root, dir = filepath.Join(t.TempDir(), "ds"), filepath.Join(t.TempDir(), "st")
	testenv.Must(t, os.MkdirAll(filepath.Join(root, "sub"), 0o755))
	testenv.Must(t, writeDataset(root))
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	pack := pack.Dataset{Registry: r, Dir: d}
	if _, err := store.Pack(t.Context(), dir, pack, pack, store.PackOptions{DatasetPath: root}); err != nil {
		t.Fatal(err)
	}
	return root, dir
}

// tree maps the paths of all files below a directory to their content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	testenv.Must(t, err)
	return found
}

// export gives back all of a store, and names the files that failed, by cause.
func export(ctx context.Context, t *testing.T, r *transcode.Registry, from, to string) (failed map[string][]string, err error) {
	t.Helper()
	s, err := mountd.OpenSource(t.Context(), mountd.SourceOptions{Path: from, Registry: r})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	view, err := View(s.Registry, transcode.Original)
	testenv.Must(t, err)
	var mu sync.Mutex
	failed = map[string][]string{}
	_, err = Run(ctx, Options{Source: s, View: view, Out: to, Done: func() {}, Failed: func(path string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed[err.Error()] = append(failed[err.Error()], path)
	}})
	return failed, err
}

func TestExportRebuildsOriginals(t *testing.T) {
	r, kind := reconstructing()
	root, dir := packed(t, r)
	rebuilt := make(chan bool, 100)
	restore := kind.Restore
	kind.Restore = func(ctx context.Context, whole, reconstruction []byte, lim transcode.Limits) ([]byte, error) {
		rebuilt <- true
		return restore(ctx, whole, reconstruction, lim)
	}
	out := filepath.Join(t.TempDir(), "new", "out")
	if failed, err := export(t.Context(), t, r, dir, out); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	if diff := cmp.Diff(tree(t, root), tree(t, out)); diff != "" {
		t.Errorf("(-dataset +export):\n%s", diff)
	}
	if len(rebuilt) != 3 {
		t.Errorf("%d files were rebuilt, want the 3 JPEG", len(rebuilt))
	}
}

// TestExportNamesWhatFails: a file that cannot be given back is named, is not
// there, and keeps no other from being exported.
func TestExportNamesWhatFails(t *testing.T) {
	for what, restored := range map[string]func(reconstruction []byte) ([]byte, error){
		"an error":    func([]byte) ([]byte, error) { return nil, transcode.Errorf(transcode.ErrBad, "checksum differs") },
		"short":       func(b []byte) ([]byte, error) { return b[1:], nil },
		"a panic":     func([]byte) ([]byte, error) { panic("index out of range") },
		"the limits":  func([]byte) ([]byte, error) { return nil, transcode.Errorf(transcode.ErrUnsupported, "the limit is 1") },
		"interrupted": nil,
	} {
		t.Run(what, func(t *testing.T) {
			r, kind := reconstructing()
			root, dir := packed(t, r)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			kind.Restore = func(ctx context.Context, _, reconstruction []byte, _ transcode.Limits) ([]byte, error) {
				if restored == nil {
					cancel()
					return nil, ctx.Err()
				}
				return restored(reconstruction)
			}
			out := t.TempDir()
			failed, err := export(ctx, t, r, dir, out)
			want := tree(t, root)
			for name, content := range tree(t, out) {
				if content != want[name] {
					t.Errorf("%s is there and differs", name)
				}
				delete(want, name)
			}
			if restored == nil {
				if !errors.Is(err, context.Canceled) || len(failed) > 0 {
					t.Errorf("%v: %v", err, failed)
				}
				return
			}
			for _, names := range failed {
				slices.Sort(names)
				if diff := cmp.Diff([]string{"a.jpg", "b.jpg", "sub/c.jpg"}, names); diff != "" {
					t.Error(diff)
				}
			}
			if err != nil || len(failed) != 1 || len(want) != 3 {
				t.Errorf("%v: %d files are missing: %v", err, len(want), failed)
			}
		})
	}
}

// TestDamagedStoreIsNotExported flips a bit of each pack: what comes out is whole
// or is named.
func TestDamagedStoreIsNotExported(t *testing.T) {
	r, _ := reconstructing()
	root, dir := packed(t, r)
	packs, _ := filepath.Glob(filepath.Join(dir, "packs", "000001-*.pack"))
	pack := packs[0]
	whole, err := os.ReadFile(pack)
	testenv.Must(t, err)
	failures := 0
	for at := 0; at < len(whole); at += 997 {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 4
		testenv.Must(t, os.WriteFile(pack, damaged, 0o644))
		out := t.TempDir()
		failed, err := export(t.Context(), t, r, dir, out)
		want := tree(t, root)
		for name, content := range tree(t, out) {
			if content != want[name] {
				t.Errorf("byte %d: %s differs", at, name)
			}
			delete(want, name)
		}
		if err == nil && len(failed) == 0 && len(want) > 0 {
			t.Errorf("byte %d: %d files are missing, and nothing was said", at, len(want))
		}
		if err != nil || len(failed) > 0 {
			failures++
		}
	}
	if failures == 0 {
		t.Error("no damage was noticed")
	}
}

func TestSameTime(t *testing.T) {
	const want = 1_234_567_891_234_567_891
	for got, same := range map[int64]bool{
		want: true, 1_234_567_891_234_567_800: true, 1_234_567_891_234_567_000: true,
		1_234_567_891_000_000_000: true, 1_234_567_890_000_000_000: true,
		want + 1: false, want - 1: false, 1_234_567_892_000_000_000: false, 1_234_567_891_234_000_000: false, 0: false,
	} {
		if sameTime(got, want) != same {
			t.Errorf("%d: %v", got, !same)
		}
	}
}

func TestSecondExportIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := openOutput(dir)
	testenv.Must(t, err)
	if _, err := openOutput(dir); err == nil || !strings.Contains(err.Error(), "another pipefs export writes to") {
		t.Errorf("a second one: %v", err)
	}
	first.close()
	second, err := openOutput(dir)
	testenv.Must(t, err)
	second.close()
}

// TestNothingIsWrittenOut: a link in OUT that leads elsewhere is not followed.
func TestNothingIsWrittenOut(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	testenv.Must(t, os.Symlink(elsewhere, filepath.Join(dir, "sub")))
	o, err := openOutput(dir)
	testenv.Must(t, err)
	defer o.close()
	if err := o.mkdir("sub"); err == nil {
		t.Error("a link that leads out was taken for a directory")
	}
	for _, name := range []string{"sub/a", "../a"} {
		if err := o.write(t.Context(), name, zeros{}, source.Attr{}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if len(tree(t, elsewhere)) > 0 {
		t.Error("something was written elsewhere")
	}
}

// zeros is content of one byte.
type zeros struct{}

func (zeros) Size() int64                           { return 1 }
func (zeros) ReadAt(b []byte, _ int64) (int, error) { return len(b), nil }

// writeDataset makes three JPEG, a picture and a mask in PNG, a file of labels, and one that is broken.
func writeDataset(dir string) error {
	photo := pictures.Photo(60, 40, 1)
	var errs []error
	for _, name := range []string{"a.jpg", "b.jpg", "sub/c.jpg", "photo.png"} {
		errs = append(errs, pictures.Write(filepath.Join(dir, name), photo))
	}
	return errors.Join(append(errs, pictures.Write(filepath.Join(dir, "mask.png"), pictures.Mask(60, 40, 3, 1)),
		os.WriteFile(filepath.Join(dir, "labels.json"), []byte("{}\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "text.jpg"), []byte("\xff\xd8\xff\xd8no picture\n"), 0o644))...)
}
