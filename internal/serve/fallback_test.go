package serve

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
)

// TestDamagedCopyIsMadeAgain: what an overlay keeps is a copy. When its bytes are
// damaged readers get the right ones all the same, and the copy is made again.
func TestDamagedCopyIsMadeAgain(t *testing.T) {
	root, dir := writeDataset(t), t.TempDir()
	v := view(t, "resize64-bmp")
	wanted := want(t, root, "a.jpg", v)
	kept := openOverlay(t, dir, 0)
	f := newFixture(t, root, func(o *Options) { o.Overlay = kept })
	if got, err := f.read(1, f.file(t, "a.jpg"), v); err != nil || !bytes.Equal(got, wanted) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	testenv.Must(t, errors.Join(f.Close(), kept.Close()))

	kept = openOverlay(t, dir, 0)
	damage(t, dir, wanted[len(wanted)/2:]) // once it is open, or it would notice
	defer kept.Close()
	f = newFixture(t, root, func(o *Options) { o.Overlay = kept })
	c, err := f.Open(t.Context(), 1, f.file(t, "a.jpg"), v)
	testenv.Must(t, err)
	defer c.Release()
	// Many readers at once; the damage is in the last part.
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			got := make([]byte, len(wanted))
			if n, err := c.ReadAt(got, 0); n != len(wanted) || !bytes.Equal(got, wanted) {
				t.Errorf("%d of %d bytes, %v", n, len(wanted), err)
			}
		})
	}
	readers.Wait()
	if n := f.Stats().Mix.Fallbacks; n != 1 {
		t.Errorf("%d fallbacks, want 1", n)
	}
	// The next one finds a whole copy.
	f.Drop(1)
	if got, err := f.read(2, f.file(t, "a.jpg"), v); err != nil || !bytes.Equal(got, wanted) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n := f.Stats().Mix.Fallbacks; n != 1 {
		t.Errorf("the copy was not made again: %d fallbacks", n)
	}
}

// TestReplacedCopyIsMadeAgain: a file of the overlay that is a link, a FIFO or a directory meanwhile, or gone.
func TestReplacedCopyIsMadeAgain(t *testing.T) {
	root := writeDataset(t)
	for what, replace := range map[string]func(name string) error{
		"a link":            func(name string) error { return os.Symlink("/dev/zero", name) },
		"a FIFO":            func(name string) error { return unix.Mkfifo(name, 0o644) },
		"a directory":       func(name string) error { return os.Mkdir(name, 0o755) },
		"gone":              func(string) error { return nil },
		"of no permissions": func(name string) error { return os.Symlink(name, name) },
	} {
		for _, spec := range []string{"resize64-bmp", "resize64-grey-bmp"} { // the whole, and more to compute
			dir, v := t.TempDir(), view(t, spec)
			kept := openOverlay(t, dir, 0)
			f := newFixture(t, root, func(o *Options) { o.Overlay = kept })
			for _, first := range []string{"resize64", spec} {
				if _, err := f.read(1, f.file(t, "a.jpg"), view(t, strings.TrimSuffix(first, "-bmp")+"-bmp")); err != nil {
					t.Fatal(err)
				}
			}
			testenv.Must(t, errors.Join(f.Close(), kept.Close()))
			kept = openOverlay(t, dir, 0)
			packs, err := filepath.Glob(filepath.Join(dir, "*.pack*"))
			if err != nil || len(packs) == 0 {
				t.Fatal(packs, err)
			}
			for _, name := range packs {
				testenv.Must(t, errors.Join(os.Remove(name), replace(name)))
			}
			f = newFixture(t, root, func(o *Options) { o.Overlay = kept })
			if got, err := f.read(2, f.file(t, "a.jpg"), v); err != nil || !bytes.Equal(got, want(t, root, "a.jpg", v)) {
				t.Errorf("%s is %s: %d bytes, %v", spec, what, len(got), err)
			}
			f.Close()
			_ = kept.Close() // its directory is broken
		}
	}
}

// TestCopyOnBadSectors: the disk of the overlay fails to read what was kept, before a reader opens it and while it
// is read. The dataset's bytes are served, and one line of the log says why.
func TestCopyOnBadSectors(t *testing.T) {
	root, dir := writeDataset(t), t.TempDir()
	v := view(t, "resize64-bmp")
	wanted := want(t, root, "a.jpg", v)
	var bad atomic.Bool
	disk := &faultfs.FS{Base: vfs.OS, Inject: func(op faultfs.Op) error {
		if bad.Load() && op.Kind == "read" && strings.Contains(op.Name, ".pack") {
			return &os.PathError{Op: "read", Path: op.Name, Err: unix.EIO}
		}
		return nil
	}}
	for _, opened := range []bool{false, true} {
		bad.Store(false)
		kept := openOverlay(t, dir, 0)
		f := newFixture(t, root, func(o *Options) { o.Overlay = kept })
		if _, err := f.read(1, f.file(t, "a.jpg"), v); err != nil {
			t.Fatal(err)
		}
		testenv.Must(t, errors.Join(f.Close(), kept.Close()))

		kept, err := store.OpenOverlay(dir, store.OverlayOptions{FS: disk})
		testenv.Must(t, err)
		var log bytes.Buffer
		f = newFixture(t, root, func(o *Options) { o.Overlay, o.Log = kept, slog.New(slog.NewTextHandler(&log, nil)) })
		bad.Store(!opened)
		c, err := f.Open(t.Context(), 1, f.file(t, "a.jpg"), v)
		testenv.Must(t, err)
		bad.Store(true)
		got := make([]byte, len(wanted))
		if n, err := c.ReadAt(got, 0); n != len(wanted) || !bytes.Equal(got, wanted) {
			t.Errorf("opened before: %v: %d of %d bytes, %v", opened, n, len(wanted), err)
		}
		c.Release()
		testenv.Must(t, f.Close())
		_ = kept.Close() // its disk is broken
		if n := strings.Count(log.String(), unix.EIO.Error()); n != 1 {
			t.Errorf("opened before: %v: %d lines, want 1: %s", opened, n, &log)
		}
	}
}

// damage flips a bit in a pack of dir, where these bytes are.
func damage(t *testing.T, dir string, where []byte) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, "*.pack*"))
	testenv.Must(t, err)
	for _, pack := range packs {
		b, err := os.ReadFile(pack)
		testenv.Must(t, err)
		if i := bytes.Index(b, where); i >= 0 {
			b[i] ^= 1
			testenv.Must(t, os.WriteFile(pack, b, 0o644))
			return
		}
	}
	t.Fatal("not in any pack")
}

// watcher remembers the load.
type watcher struct {
	mu  sync.Mutex
	saw []mixer.Load
}

func (w *watcher) Observe(l mixer.Load) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saw = append(w.saw, l)
}

// TestTheLoadIsObserved of a server that works, and of one that rests.
func TestTheLoadIsObserved(t *testing.T) {
	w := &watcher{}
	f := newFixture(t, writeDataset(t), func(o *Options) { o.Observe, o.Workers = w.Observe, 1 })
	file, v := f.file(t, "a.jpg"), view(t, "png")
	var busy, idle bool
	for key := Key(0); !busy || !idle; key++ {
		if key > 100_000 || t.Context().Err() != nil {
			t.Fatalf("busy seen: %v, idle seen: %v", busy, idle)
		}
		if busy {
			time.Sleep(observeEvery / 4)
		} else if _, err := f.read(key, file, v); err != nil {
			t.Fatal(err)
		}
		f.Drop(key)
		w.mu.Lock()
		for _, l := range w.saw {
			if l.Compute < 0 || l.Compute > 1.1 || l.Disk < 0 || l.Disk > 1.1 {
				t.Errorf("impossible: %+v", l)
			}
			busy = busy || l.Compute > 0.5 && l.Disk > 0
			idle = idle || busy && l == mixer.Load{}
		}
		w.mu.Unlock()
	}
}

// TestDamagedJPEG wants a file that is damaged in the middle to be the same picture
// from a dataset and from a store, and unchanged where its scans are wanted.
func TestDamagedJPEG(t *testing.T) {
	root, dir := writeDataset(t), filepath.Join(t.TempDir(), "store")
	path := filepath.Join(root, "a.jpg")
	src, err := os.ReadFile(path)
	testenv.Must(t, err)
	copy(src[len(src)*2/3:], []byte{0xff, 0xff, 0xd3, 0, 0x17, 0xff, 0xd1, 0xfe, 0xfe, 0xfe})
	testenv.Must(t, os.WriteFile(path, src, 0o644))
	packWith(t, registry, root, dir, pack.Rebuild)
	unpacked, packed := newFixture(t, root, nil), fromStore(t, registry, dir, nil)
	for i, spec := range views {
		v := view(t, spec)
		a, err := unpacked.read(Key(i), unpacked.file(t, "a.jpg"), v)
		if err != nil && spec != "scan2-resize32-npy" {
			t.Errorf("%s of a dataset: %v", spec, err)
		}
		b, err2 := packed.read(Key(i), packed.file(t, "a.jpg"), v)
		if err2 != nil || err == nil && !bytes.Equal(a, b) {
			t.Errorf("%s of a store: %v, or it differs from the dataset's", spec, err2)
		}
		if v.Len() == 1 && v.Steps()[0].Kind.Split != nil && !bytes.Equal(a, src) {
			t.Errorf("%s: not the file itself", spec)
		}
	}
}
