package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
	"github.com/pipefs/pipefs/transcode"
)

var jpegInfo = transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: 3, Height: 2, Scannable: true}

func mustOverlay(t testing.TB, dir string, o OverlayOptions) *Overlay {
	t.Helper()
	o.Logger = quiet
	v, err := OpenOverlay(dir, o)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// overlayItem is what the tests store of a version of a sample.
type overlayItem struct{ i, version int }

func (s overlayItem) key() (path string, id Identity, data []byte) {
	r := rand.New(rand.NewPCG(uint64(s.i), uint64(s.version)))
	return fmt.Sprintf("%04d.jpg", s.i), ident(uint64(s.i), 0, int64(s.version)), noise(r, r.IntN(60_000))
}

func (s overlayItem) put(v *Overlay) error {
	path, id, data := s.key()
	return v.Put(path, id, jpegInfo, "scan@1", fakeSplit(data))
}

func (s overlayItem) open(v *Overlay, level int) (*Reader, error) {
	path, id, _ := s.key()
	rep, err := v.Get(path, id, "scan@1")
	if err != nil {
		return nil, err
	}
	return v.Reader(rep, level)
}

// read checks what a reader of a level reads.
func (s overlayItem) read(r *Reader, level int) error {
	_, _, data := s.key()
	got := make([]byte, r.Size())
	if _, err := r.ReadAt(got, 0); err != nil {
		return err
	}
	if !bytes.Equal(got, splitLevel(fakeSplit(data), level)) {
		return fmt.Errorf("%v, level %d: wrong bytes", s, level)
	}
	return nil
}

// get reads all levels.
func (s overlayItem) get(v *Overlay) error {
	for level := range 6 {
		r, err := s.open(v, level)
		if err == nil {
			err = s.read(r, level)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func putItem(v *Overlay, i int) error { return overlayItem{i, 0}.put(v) }
func getItem(v *Overlay, i int) error { return overlayItem{i, 0}.get(v) }

func TestOverlay(t *testing.T) {
	dir := filepath.Join(tempDir(t), "overlay")
	o := OverlayOptions{PackBytes: 300_000}
	v := mustOverlay(t, dir, o)
	if _, err := OpenOverlay(dir, o); !errors.Is(err, ErrLocked) {
		t.Errorf("while another one has it: %v", err)
	}
	const n = 40
	for i := range n {
		if err := getItem(v, i); !errors.Is(err, ErrNotFound) {
			t.Fatalf("before it is put: %v", err)
		}
		testenv.Must(t, errors.Join(putItem(v, i), getItem(v, i)))
	}
	path, id, _ := overlayItem{3, 0}.key()
	if _, err := v.Get(path, ident(99, 0, 0), "scan@1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another version: %v", err)
	}
	if _, err := v.Get(path, id, "scan@2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another key: %v", err)
	}
	for key, want := range map[string]bool{"scan@1": true, "scan@2": false} {
		if info, ok := v.Info(path, id, key); ok != want || ok != (info == jpegInfo) || v.Has(path, id, key) != want {
			t.Errorf("%s: %+v, %v", key, info, ok)
		}
	}
	v.Forget(path, ident(99, 0, 0), "scan@1")
	size, live := v.Bytes(), v.liveBytes()
	if err := putItem(v, 3); err != nil || v.Bytes() != size {
		t.Errorf("a second time: %v, %d more bytes", err, v.Bytes()-size)
	}
	for range 3 {
		testenv.Must(t, v.Close())
		v = mustOverlay(t, dir, o)
		if v.Bytes() != size || v.liveBytes() != live {
			t.Errorf("%d bytes, %d of use, after opening again, before %d, %d", v.Bytes(), v.liveBytes(), size, live)
		}
		for i := range n {
			testenv.Must(t, getItem(v, i))
		}
	}
	v.Forget(path, id, "scan@1")
	if _, err := v.Get(path, id, "scan@1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("forgotten: %v", err)
	}
	if err := errors.Join(putItem(v, 3), getItem(v, 3)); err != nil {
		t.Error(err)
	}
	r, err := overlayItem{4, 0}.open(v, 0)
	testenv.Must(t, errors.Join(err, v.Close()))
	for what, err := range []error{getItem(v, 3), putItem(v, n), overlayItem{4, 0}.read(r, 0)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%d, after Close: %v", what, err)
		}
	}
}

func TestOverlayFull(t *testing.T) {
	const budget = 700_000
	v := mustOverlay(t, tempDir(t), OverlayOptions{MaxBytes: budget, PackBytes: 200_000})
	stored := 0
	for i := range 60 {
		err := putItem(v, i)
		switch {
		case err == nil:
			stored++
			testenv.Must(t, getItem(v, i))
		case !errors.Is(err, ErrFull):
			t.Fatal(err)
		}
		if v.Bytes() > budget+1_000 {
			t.Fatalf("%d bytes", v.Bytes())
		}
	}
	if stored < 10 || stored == 60 {
		t.Errorf("%d stored", stored)
	}
}

// What an overlay holds can be counted while somebody writes to it.
func TestOverlayKeys(t *testing.T) {
	dir := tempDir(t)
	if keys, err := OverlayKeys(filepath.Join(dir, "none")); err != nil || len(keys) != 0 {
		t.Errorf("of nothing: %v, %v", keys, err)
	}
	v := mustOverlay(t, dir, OverlayOptions{PackBytes: 200_000})
	want := int64(0)
	for i := range 12 { // some packs are sealed by then, and one is not
		testenv.Must(t, putItem(v, i))
		path, id, _ := overlayItem{i, 0}.key()
		rep, err := v.Get(path, id, "scan@1")
		testenv.Must(t, err)
		want += rep.Size(0)
	}
	keys, err := OverlayKeys(dir)
	if err != nil || len(keys) != 1 || keys["scan@1"] != want {
		t.Errorf("%v, %v, want %d", keys, err, want)
	}
}

// Whoever shares the disk among overlays is asked before one grows.
func TestOverlayRoom(t *testing.T) {
	room := int64(0)
	none := errors.New("others have it")
	v := mustOverlay(t, tempDir(t), OverlayOptions{Reserve: func(bytes int64) error {
		if bytes > room {
			return none
		}
		return nil
	}})
	if err := putItem(v, 0); !errors.Is(err, ErrFull) || !errors.Is(err, none) {
		t.Errorf("without room: %v", err)
	}
	room = 1 << 30
	if err := errors.Join(putItem(v, 0), getItem(v, 0)); err != nil {
		t.Errorf("with room: %v", err)
	}
	if room = v.Bytes(); putItem(v, 1) == nil || v.Bytes() != room {
		t.Errorf("%d bytes where there is room for %d", v.Bytes(), room)
	}
}

// Different names with the same hash do not find each other.
func TestOverlayCollisions(t *testing.T) {
	whole := nameHash
	defer func() { nameHash = whole }()
	nameHash = func(s maphash.Seed, path, steps string) uint64 { return whole(s, path, steps) % 3 }
	dir := tempDir(t)
	v := mustOverlay(t, dir, OverlayOptions{})
	for i := range 20 {
		testenv.Must(t, errors.Join(putItem(v, i), getItem(v, i)))
	}
	found := 0
	for i := range 20 {
		switch err := getItem(v, i); {
		case err == nil:
			found++
		case !errors.Is(err, ErrNotFound):
			t.Fatal(err)
		}
	}
	if found == 0 || found > 3 {
		t.Errorf("%d found", found)
	}
}

// A disk that is full for a while costs only what was to be kept then.
func TestOverlayFaults(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	for n := int64(1); n < 90; n++ {
		for i, fault := range []error{syscall.ENOSPC, faultfs.ErrShort, syscall.EIO} {
			if testenv.Race && int(n)%3 != i {
				continue // slow
			}
			dir := tempDir(t)
			nth, kind := faultfs.Nth(n, fault), ""
			fsys := &faultfs.FS{Base: vfs.OS, Inject: func(op faultfs.Op) error {
				err := nth(op)
				if err != nil {
					kind = op.Kind
				}
				return err
			}}
			// After a failed sync nobody knows what is on the disk: all that was
			// not durable before goes.
			lost := func(err error) bool { return kind == "sync" && errors.Is(err, ErrNotFound) }
			stored := map[int]bool{}
			v, err := OpenOverlay(dir, OverlayOptions{FS: fsys, Logger: quiet, PackBytes: 100_000})
			if err == nil {
				for i := range 8 {
					if err := putItem(v, i); err == nil {
						stored[i] = true
					} else if errors.Is(fault, syscall.ENOSPC) && !errors.Is(err, ErrFull) && !errors.Is(err, syscall.ENOSPC) {
						t.Errorf("operation %d, put: %v", n, err)
					}
				}
				fsys.Inject = func(faultfs.Op) error { return nil }
				for i := range stored {
					if err := getItem(v, i); err != nil && !lost(err) {
						t.Errorf("operation %d, %s: %v", n, kind, err)
					}
				}
				_ = v.Close()
			}
			v = mustOverlay(t, dir, OverlayOptions{})
			for i := range stored {
				if err := getItem(v, i); err != nil && !lost(err) {
					t.Errorf("operation %d, %v, item %d opened again: %v", n, fault, i, err)
				}
			}
			for i := range 8 {
				if err := errors.Join(putItem(v, i), getItem(v, i)); err != nil {
					t.Errorf("operation %d: %v", n, err)
				}
			}
			_ = v.Close()
			_ = os.RemoveAll(dir)
		}
	}
}

// Damage costs the record it hits, or what follows it in an unfinished pack.
func TestOverlayDamage(t *testing.T) {
	t.Parallel()
	r := random(t)
	dir := tempDir(t)
	v := mustOverlay(t, dir, OverlayOptions{PackBytes: 200_000})
	for i := range 12 {
		testenv.Must(t, putItem(v, i))
	}
	_ = v.Close()
	for range 40 {
		names, err := filepath.Glob(filepath.Join(dir, "*.pack*"))
		testenv.Must(t, err)
		name := names[r.IntN(len(names))]
		whole, err := os.ReadFile(name)
		testenv.Must(t, err)
		at := r.IntN(len(whole))
		if r.IntN(2) == 0 { // small structures are hit too
			at = max(0, len(whole)-1-r.IntN(300))
		}
		whole[at] ^= 1 << r.IntN(8)
		write(t, name, whole)
		v := mustOverlay(t, dir, OverlayOptions{PackBytes: 200_000})
		for i := range 12 {
			err := getItem(v, i)
			if errors.Is(err, ErrCorrupt) {
				path, id, _ := overlayItem{i, 0}.key()
				v.Forget(path, id, "scan@1")
				err = putItem(v, i)
			} else if errors.Is(err, ErrNotFound) {
				err = putItem(v, i)
			}
			if err = errors.Join(err, getItem(v, i)); err != nil {
				t.Fatalf("%s byte %d, item %d: %v", name, at, i, err)
			}
		}
		_ = v.Close()
	}
}
