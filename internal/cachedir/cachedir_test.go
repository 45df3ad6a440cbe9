package cachedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

const mb = 1 << 20

// fill makes a slot hold so many bytes, as its mount would: after it has asked.
func fill(t *testing.T, s *Slot, bytes int64) {
	t.Helper()
	testenv.Must(t, s.Reserve(bytes))
	write(t, s.Dir, bytes)
}

func write(t *testing.T, dir string, bytes int64) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Join(dir, "packs"), 0o700))
	f, err := os.Create(filepath.Join(dir, "packs", "1.pack"))
	testenv.Must(t, err)
	defer f.Close()
	testenv.Must(t, f.Truncate(bytes))
}

func take(t *testing.T, r *Root, dataset string) *Slot {
	t.Helper()
	s, err := r.Take(dataset, "/mnt", 0)
	testenv.Must(t, err)
	return s
}

// kill does what the kernel does when a process is killed.
func kill(s *Slot) { s.lock.Close() }

// Space that a mount gave back is there for another one.
func TestGivesBack(t *testing.T) {
	r := limited(t, 1000*mb)
	one, other := take(t, r, "/data/a"), take(t, r, "/data/b")
	fill(t, one, 700*mb)
	if err := other.Reserve(400 * mb); !errors.Is(err, ErrFull) {
		t.Errorf("700 of 1000 MB are taken: %v", err)
	}
	write(t, one.Dir, 100*mb)
	testenv.Must(t, one.Reserve(100*mb))
	other.refused = time.Time{}
	fill(t, other, 700*mb)
	fill(t, one, 200*mb)
}

// used says when a slot was used last.
func used(t *testing.T, s *Slot, ago time.Duration) {
	t.Helper()
	when := time.Now().Add(-ago)
	testenv.Must(t, os.Chtimes(s.Dir+lockSuffix, when, when))
}

func isThere(s *Slot) bool {
	_, err := os.Stat(s.Dir)
	return err == nil
}

func limited(t *testing.T, limit int64) *Root {
	t.Helper()
	r := Open(t.TempDir())
	testenv.Must(t, r.SetLimit(limit))
	return r
}

func TestSlots(t *testing.T) {
	dir := t.TempDir()
	slot := func(want string) *Slot {
		t.Helper()
		s, err := TakeSlot(dir)
		testenv.Must(t, err)
		if filepath.Base(s.Dir) != want {
			t.Errorf("got %s, want %s", s.Dir, want)
		}
		return s
	}
	if Kept(dir) {
		t.Error("something is kept in an empty directory")
	}
	a := slot("overlay.0")
	b := slot("overlay.1")
	a.Release()
	a = slot("overlay.0")
	slot("overlay.2").Release()
	a.Release()
	b.Release()
	if !Kept(dir) || a.Reserve(1<<60) != nil {
		t.Error("a slot in a directory of its own has no limit here")
	}
}

// What nobody uses makes room, the one that was used longest ago first; what a mount
// uses stays, and then there is no more room.
func TestLimit(t *testing.T) {
	r := limited(t, 20*mb)
	oldest, old, busy := take(t, r, "/data/a"), take(t, r, "/data/b"), take(t, r, "/data/c")
	for _, s := range []*Slot{oldest, old, busy} {
		fill(t, s, 5*mb)
	}
	oldest.Release()
	kill(old) // what it had reserved beyond what it has is free again
	used(t, oldest, 2*time.Hour)
	used(t, old, time.Hour)

	s := take(t, r, "/data/d")
	defer s.Release()
	fill(t, s, 8*mb)
	if isThere(oldest) || !isThere(old) || !isThere(busy) {
		t.Errorf("there are: oldest %v, old %v, busy %v", isThere(oldest), isThere(old), isThere(busy))
	}
	if _, err := os.Stat(filepath.Dir(oldest.Dir)); err == nil {
		t.Error("the directory of a dataset without slots stayed")
	}
	fill(t, s, 13*mb)
	if isThere(old) || !isThere(busy) {
		t.Errorf("there are: old %v, busy %v", isThere(old), isThere(busy))
	}
	if err := s.Reserve(16 * mb); !errors.Is(err, ErrFull) {
		t.Errorf("more than the limit: %v", err)
	}
	if err := s.Reserve(13 * mb); err != nil {
		t.Errorf("what it has: %v", err)
	}
	busy.Release()
	s.refused = time.Time{}
	if err := s.Reserve(16 * mb); err != nil {
		t.Errorf("after another mount went: %v", err)
	}
}

// What was kept under a larger limit is given up, and one dataset's slots are several.
func TestShrink(t *testing.T) {
	r := limited(t, 20*mb)
	a, b := take(t, r, "/data/a"), take(t, r, "/data/a")
	fill(t, a, 6*mb)
	fill(t, b, 6*mb)
	b.Release()
	testenv.Must(t, r.SetLimit(8*mb))
	if isThere(b) || !isThere(a) {
		t.Error("what nobody uses is to go, and what is used to stay")
	}
	if err := a.Reserve(9 * mb); !errors.Is(err, ErrFull) {
		t.Errorf("a mount does not see the new limit: %v", err)
	}
	testenv.Must(t, r.SetLimit(4*mb))
	a.Release()
	a = take(t, r, "/data/a")
	defer a.Release()
	if isThere(a) {
		t.Error("6 MB are kept under a limit of 4 MB")
	}
}

// Mounts that ask at the same time are not given the same room.
func TestTogether(t *testing.T) {
	r := limited(t, 64*mb)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []*Slot
	for i := range 8 {
		wg.Go(func() {
			s, err := r.Take(fmt.Sprint("/data/", i%3), "/mnt", 0)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			all = append(all, s)
			mu.Unlock()
			for n := int64(mb); s.Reserve(n) == nil; n += mb / 2 {
				if n > 65*mb {
					t.Error("no end")
					return
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for _, s := range all {
		total += s.use.Reserved
		s.Release()
	}
	if total > 64*mb || total < 56*mb {
		t.Errorf("%d MB were reserved", total/mb)
	}
}

func TestListAndClear(t *testing.T) {
	r := limited(t, 100*mb)
	a, b, c := take(t, r, "/data/a"), take(t, r, "/data/a"), take(t, r, "/data/c")
	fill(t, a, 3*mb)
	fill(t, b, 2*mb)
	fill(t, c, mb)
	a.Release()
	c.Release()
	used(t, c, time.Hour)
	entries, err := r.List()
	if err != nil || len(entries) != 3 {
		t.Fatalf("%+v, %v", entries, err)
	}
	for _, e := range entries {
		if want := map[string]int64{a.Dir: 3 * mb, b.Dir: 2 * mb, c.Dir: mb}[e.Dir]; e.Bytes != want || e.InUse != (e.Dir == b.Dir) {
			t.Errorf("%+v", e)
		}
		if e.InUse && e.Use.Mount != "/mnt" || !e.InUse && e.Use != (Use{}) {
			t.Errorf("%+v", e)
		}
	}
	if entries[2].Dataset != "/data/c" {
		t.Errorf("the last one is %+v", entries[2])
	}
	removed, left, err := r.Clear("/data/a")
	if err != nil || len(removed) != 1 || len(left) != 1 || isThere(a) || !isThere(b) || !isThere(c) {
		t.Errorf("%+v, %+v, %v", removed, left, err)
	}
	b.Release()
	if removed, left, err = r.Clear(""); err != nil || len(removed) != 2 || len(left) != 0 {
		t.Errorf("%+v, %+v, %v", removed, left, err)
	}
	names, err := filepath.Glob(filepath.Join(r.Dir(), "*"))
	if err != nil || len(names) != 2 { // limit and lock
		t.Errorf("left behind: %q, %v", names, err)
	}
}

// Without a limit that was set it follows the disk, and a mount may want more.
func TestDefaultLimit(t *testing.T) {
	r := Open(t.TempDir())
	free, err := Free(r.Dir())
	testenv.Must(t, err)
	limit, set, err := r.Limit()
	if err != nil || set || limit > mostByDefault || limit > free/2 {
		t.Errorf("%d, %v, %v of %d", limit, set, err, free)
	}
	s, err := r.Take("/data", "/mnt", 1<<60)
	testenv.Must(t, err)
	defer s.Release()
	if err := s.Reserve(1 << 59); err != nil {
		t.Errorf("a limit of its own: %v", err)
	}
	testenv.Must(t, r.SetLimit(mb))
	if limit, set, err := r.Limit(); limit != mb || !set || err != nil {
		t.Errorf("%d, %v, %v", limit, set, err)
	}
	testenv.Must(t, r.SetLimit(-1))
	if _, set, _ := r.Limit(); set {
		t.Error("the limit is still set")
	}
}

// What is no file where one should be is an error, and nobody waits for it.
func TestNoFile(t *testing.T) {
	r := Open(t.TempDir())
	testenv.Must(t, syscall.Mkfifo(filepath.Join(r.Dir(), lockName), 0o600))
	if s, err := r.Take("/data", "/mnt", 0); !errors.Is(err, vfs.ErrNotRegular) || s != nil {
		t.Errorf("%v, %v", s, err)
	}
}

// A slot whose lock file says nothing, or nonsense, counts as what it is.
func TestNonsense(t *testing.T) {
	r := limited(t, 10*mb)
	a := take(t, r, "/data/a")
	defer a.Release()
	fill(t, a, 4*mb)
	for _, text := range []string{"", "{", `{"reserved": -5}`, `{"reserved": "x"}`, "\x00\x00"} {
		testenv.Must(t, os.WriteFile(a.Dir+lockSuffix, []byte(text), 0o600))
		b := take(t, r, "/data/b")
		if err := b.Reserve(7 * mb); !errors.Is(err, ErrFull) {
			t.Errorf("%q: %v", text, err)
		}
		if err := b.Reserve(5 * mb); !errors.Is(err, ErrFull) { // the refusal holds for a while
			t.Errorf("%q: %v", text, err)
		}
		b.refused = time.Time{}
		if err := b.Reserve(5 * mb); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		b.Release()
	}
}

// TestStuckHolder: the next daemon of a mount does not wait for the lock of one that was killed while it
// held that, and of which a thread waits for the next one's answer.
func TestStuckHolder(t *testing.T) {
	r := Open(t.TempDir())
	testenv.Stuck(t, filepath.Join(r.Dir(), lockName), false)
	s, err := r.Take("/d", "/m", 0)
	testenv.Must(t, err)
	s.Release()
}
