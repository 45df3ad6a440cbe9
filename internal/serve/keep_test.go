package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
	"github.com/pipefs/pipefs/transcode"
)

// faultyOverlay is an overlay whose packs are full after one result, on a file system
// with faults.
func faultyOverlay(t *testing.T, inject func(faultfs.Op) error) *store.Overlay {
	t.Helper()
	fsys := &faultfs.FS{Base: vfs.OS, Inject: inject}
	o, err := store.OpenOverlay(filepath.Join(t.TempDir(), "overlay"), store.OverlayOptions{FS: fsys, PackBytes: 1})
	testenv.Must(t, err)
	t.Cleanup(func() { o.Close() })
	return o
}

// TestReadersDoNotWaitForTheDisk wants readers to be answered while the file system of
// the overlay hangs in a sync, or in a write.
func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	for _, kind := range []string{"write", "sync"} {
		t.Run(kind, func(t *testing.T) {
			hangs, answered := make(chan bool), make(chan bool)
			var once sync.Once
			overlay := faultyOverlay(t, func(op faultfs.Op) error {
				if op.Kind == kind {
					once.Do(func() {
						close(hangs)
						<-answered
					})
				}
				return nil
			})
			f := newFixture(t, writeDataset(t), func(o *Options) { o.Overlay = overlay })
			v := view(t, "scan5")
			read := func(key Key, name string) {
				if got, err := f.read(key, f.file(t, name), v); err != nil || !bytes.Equal(got, want(t, f.root, name, v)) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			done := make(chan bool)
			go func() {
				defer close(done)
				read(1, "a.jpg")
				<-hangs
				read(2, "a.jpg")
				read(3, "b.jpg")
				if _, err := f.Resolve(t.Context(), 4, f.file(t, "c.png"), view(t, "resize64-png")); err != nil {
					t.Error(err)
				}
				f.Stats()
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Error("readers wait for the disk")
			}
			close(answered)
			<-done
			f.Close()
			if s := f.Stats(); s.Kept != 3 || s.Unkept != 0 {
				t.Errorf("%d kept, %d not", s.Kept, s.Unkept)
			}
		})
	}
}

// TestOutdatedIsReclaimed: of a sample that changed, of one that is gone and of another
// implementation nothing is left, and everything else is.
func TestOutdatedIsReclaimed(t *testing.T) {
	root := writeDataset(t)
	overlay := openOverlay(t, filepath.Join(t.TempDir(), "overlay"), 0)
	defer overlay.Close()
	type kept struct {
		file File
		key  string
	}
	var all []kept
	f := newFixture(t, root, func(o *Options) { o.Overlay = overlay })
	for i, name := range []string{"a.jpg", "b.jpg", "c.png"} {
		v := view(t, "resize64-png")
		file := f.file(t, name)
		if _, err := f.read(Key(i), file, v); err != nil {
			t.Fatal(err)
		}
		all = append(all, kept{file, f.planned(t, name, v.String()).result})
	}
	f.Close()
	older := kept{all[1].file, "resize32-png@resize0,png1"}
	testenv.Must(t, overlay.Put("b.jpg", storedAs(older.file.Identity), transcode.Info{}, older.key, transcode.Split{Data: make([]byte, 10_000)}))
	other, err := os.ReadFile(filepath.Join(root, "b.jpg"))
	testenv.Must(t, err)
	testenv.Must(t, errors.Join(os.WriteFile(filepath.Join(root, "a.jpg"), other, 0o644), os.Remove(filepath.Join(root, "c.png"))))
	f = newFixture(t, root, func(o *Options) { o.Overlay = overlay })
	before := overlay.Bytes()
	testenv.Must(t, overlay.Reclaim(t.Context(), f.Current))
	for i, k := range append(all, older) {
		if has := overlay.Has(k.file.Path, storedAs(k.file.Identity), k.key); has != (i == 1) {
			t.Errorf("%s as %s: there is %v", k.file.Path, k.key, has)
		}
	}
	if s := f.Stats(); s.OverlayBytes >= before-10_000 || s.ReclaimedBytes < 10_000 {
		t.Errorf("%d bytes before, %d now, %d reclaimed", before, s.OverlayBytes, s.ReclaimedBytes)
	}
}

// TestEmptyTree: of a dataset that is not mounted nothing counts as gone.
func TestEmptyTree(t *testing.T) {
	png := newFixture(t, writeDataset(t), nil)
	h, err := png.Resolve(t.Context(), 1, png.file(t, "c.png"), view(t, "resize64-png"))
	testenv.Must(t, err)
	key := h.plan.Key()
	for what, want := range map[string]bool{"empty": true, "other": false} {
		root := t.TempDir()
		if what == "other" {
			testenv.Must(t, os.WriteFile(filepath.Join(root, "other.txt"), nil, 0o644))
		}
		if got := newFixture(t, root, nil).Current("c.png", store.Identity{}, key); got != want {
			t.Errorf("%s tree: %v", what, got)
		}
	}
}

// TestQueueIsBounded wants what a disk that hangs has no time for to be made, and not
// to be held in memory.
func TestQueueIsBounded(t *testing.T) {
	hang := make(chan bool)
	overlay := faultyOverlay(t, func(op faultfs.Op) error {
		if op.Kind == "write" {
			<-hang
		}
		return nil
	})
	var said bytes.Buffer
	f := newFixture(t, writeDataset(t), func(o *Options) {
		o.Overlay, o.Log = overlay, slog.New(slog.NewTextHandler(&said, nil))
	})
	f.keeper.budget.TryAcquire(f.keeper.limit) // others wait already
	for i, name := range []string{"a.jpg", "b.jpg"} {
		if _, err := f.read(Key(i), f.file(t, name), view(t, "scan5")); err != nil {
			t.Error(err)
		}
	}
	if s := f.Stats(); s.Unkept != 2 || strings.Count(said.String(), "not kept") != 1 {
		t.Errorf("%d not kept, and it was said: %s", s.Unkept, &said)
	}
	f.keeper.budget.Release(f.keeper.limit)
	if _, err := f.read(3, f.file(t, "c.png"), view(t, "resize64-png")); err != nil {
		t.Error(err)
	}
	close(hang)
	f.Close()
	if s := f.Stats(); s.Kept != 1 {
		t.Errorf("%d kept", s.Kept)
	}
}

// stopping is a dataset whose first read hangs.
type stopping struct {
	first         atomic.Bool
	hangs, goesOn chan bool
}

func (s *stopping) Begin() time.Time {
	if s.first.CompareAndSwap(false, true) {
		close(s.hangs)
		<-s.goesOn
	}
	return time.Time{}
}

func (*stopping) Done(time.Time, int) {}

// TestReaderTakesOver wants a reader of what the background is making to make it
// itself, and both to end well.
func TestReaderTakesOver(t *testing.T) {
	root := writeDataset(t)
	s := &stopping{hangs: make(chan bool), goesOn: make(chan bool)}
	slow, err := source.Open(root, source.Options{Limit: s})
	testenv.Must(t, err)
	defer slow.Close()
	f := newFixture(t, root, func(o *Options) { o.Dataset = slow })
	v := view(t, "scan5")
	file := f.file(t, "a.jpg")
	s.first.Store(true) // not the header
	h := f.planned(t, "a.jpg", "scan5")
	h.closeProbed()
	s.first.Store(false)
	background := make(chan error)
	go func() {
		made, err := f.make(t.Context(), f.idlers, h, f.candidates(h).longest(h))
		if err == nil {
			made.release()
		}
		background <- err
	}()
	<-s.hangs
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			if got, err := f.read(Key(i), file, v); err != nil || !bytes.Equal(got, want(t, root, "a.jpg", v)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	done := make(chan bool)
	go func() { readers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("readers wait for the background")
	}
	close(s.goesOn)
	if err := <-background; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-done
	if made := f.Stats().Produced; made < 1 || made > 2 {
		t.Errorf("made %d times", made)
	}
	// What the readers made is still there.
	if m := f.recent(h); m == nil {
		t.Error("the background's end took the readers' result away")
	} else {
		m.release()
	}
}

// TestFullDisk wants a full disk to be called so, once, and the background to go on
// where it was when there is room.
func TestFullDisk(t *testing.T) {
	var noRoom atomic.Bool
	noRoom.Store(true)
	overlay := faultyOverlay(t, func(op faultfs.Op) error {
		if op.Kind == "write" && noRoom.Load() {
			return syscall.ENOSPC
		}
		return nil
	})
	var said testenv.Log
	f := newFixture(t, writeDataset(t), func(o *Options) {
		o.Overlay, o.Log, o.Workers = overlay, slog.New(slog.NewTextHandler(&said, nil)), 1
	})
	f.keeper.retry = time.Millisecond
	var prepared atomic.Int64
	var background sync.WaitGroup
	for name, spec := range map[string]string{"a.jpg": "scan3", "b.jpg": "resize64-bmp", "c.png": "resize64-bmp"} {
		file, v := f.file(t, name), view(t, spec)
		background.Go(func() {
			if kept, err := f.Prepare(t.Context(), file, v); kept && err == nil {
				prepared.Add(1)
			}
		})
	}
	testenv.EventuallyIs(t, "the disk is full", func() bool { return f.Stats().Full })
	if got, err := f.read(1, f.file(t, "b.jpg"), view(t, "scan5")); err != nil || len(got) == 0 {
		t.Error(err)
	}
	noRoom.Store(false)
	background.Wait()
	made := f.Stats().Produced
	for _, spec := range []string{"scan3", "bmp"} {
		if kept, err := f.Prepare(t.Context(), f.file(t, "a.jpg"), view(t, spec)); kept || err != nil || f.Stats().Produced != made {
			t.Errorf("%s, which is kept already or not worth it, is prepared: %v, %v", spec, kept, err)
		}
	}
	for spec, want := range map[string]int64{"resize64-bmp": 1, "resize64-ppm": 0} { // what is kept, and what begins with it
		before := f.Stats().Mix
		_, err := f.read(Key(len(spec)+int(want)), f.file(t, "c.png"), view(t, spec))
		if mix := f.Stats().Mix; err != nil || mix.Materialized != before.Materialized+want || mix.Computed != before.Computed+1-want {
			t.Errorf("%s: %+v, before it %+v, %v", spec, mix, before, err)
		}
	}
	f.Close()
	if s := f.Stats(); s.Full || prepared.Load() != 3 {
		t.Errorf("%d prepared, %+v", prepared.Load(), s)
	}
	for text, times := range map[string]int{"the disk is full": 1, "no space left": 1, "there is space again": 1, "--store-max": 0} {
		if n := strings.Count(said.String(), text); n != times {
			t.Errorf("%q was said %d times:\n%s", text, n, said.String())
		}
	}
}

// TestFullByItsLimit wants the option to be named that makes more room.
func TestFullByItsLimit(t *testing.T) {
	overlay := openOverlay(t, filepath.Join(t.TempDir(), "overlay"), 100)
	defer overlay.Close()
	var said testenv.Log
	f := newFixture(t, writeDataset(t), func(o *Options) { o.Overlay, o.Log = overlay, slog.New(slog.NewTextHandler(&said, nil)) })
	for i, name := range []string{"a.jpg", "b.jpg"} {
		v := view(t, "scan5")
		if got, err := f.read(Key(i), f.file(t, name), v); err != nil || !bytes.Equal(got, want(t, f.root, name, v)) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	f.Close()
	if s := said.String(); strings.Count(s, "--store-max") != 1 || strings.Contains(s, "disk") || f.Stats().Kept != 0 || !f.Stats().Full {
		t.Errorf("%+v\n%s", f.Stats(), s)
	}
}
