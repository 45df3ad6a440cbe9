package blockcache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// unit is what tests ask for: a few blocks, perhaps.
const unit = 64 << 10

// A nil cache, and one that keeps nothing, read from the place.
func TestReadsThrough(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testenv.Must(t, os.WriteFile(file, nil, 0o600))
	var log bytes.Buffer
	for name, c := range map[string]*Cache{"nil": nil, "no directory": opened(t, file, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})} {
		p := &place{name: "memory:"}
		o := object(c, p, "a", 100)
		b := make([]byte, 40)
		for _, r := range []struct {
			off int64
			n   int
		}{{0, 40}, {60, 40}, {80, 20}, {100, 0}, {999, 0}} {
			n, err := o.ReadAt(b, r.off)
			if n != r.n || (err == nil) != (n == 40) || err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("%s: at %d: %d bytes, %v", name, r.off, n, err)
			}
		}
		if err := check(o, 13, 50); err != nil {
			t.Error(name, err)
		}
		p.fail(blob.ErrChanged)
		if _, err := object(c, p, "b", 100).ReadAt(b, 0); !errors.Is(err, blob.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		o.Fetch(0, 100)
		o.Forget(0, 100)
		testenv.Must(t, o.Close())
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "not a directory") {
		t.Errorf("the log:\n%s", &log)
	}
}

// What was read is read again without any request, by the next mount, too. Another version,
// name, size or place is something else.
func TestHitsAndMisses(t *testing.T) {
	dir := t.TempDir()
	p := &place{name: "s3://bucket"}
	const size = 10*unit + 77
	for mount := range 3 {
		c, err := Open(dir, Options{})
		testenv.Must(t, err)
		for range 2 {
			o := object(c, p, "a", size)
			for off := int64(0); off < size; off += 100_000 {
				testenv.Must(t, check(o, off, 100_000))
			}
		}
		c.waitWritten(t)
		if got := p.requests.Load(); got != 1 || p.bytes.Load() != size {
			t.Errorf("mount %d: %d requests for %d bytes", mount, got, p.bytes.Load())
		}
		stats := c.Stats()
		if stats.Kept != size || stats.Damaged+stats.Skipped+stats.Evicted != 0 || mount == 0 && (stats.Fetched != size || stats.Misses == 0) ||
			mount > 0 && (stats.Misses != 0 || stats.Hits < 22 || stats.Cached != 2*size) {
			t.Errorf("mount %d: %+v", mount, stats)
		}
		testenv.Must(t, c.Close())
	}
	c := opened(t, dir, Options{})
	for n, o := range []*Object{
		c.Object(p, blob.Info{Name: "a", Size: size, Version: "2"}), object(c, p, "aa", size), object(c, p, "a", size-1),
		object(c, &place{name: "s3://bucket2"}, "a", size),
	} {
		before := c.Stats().Fetched
		testenv.Must(t, check(o, 0, size))
		if got := c.Stats().Fetched - before; got != o.Size() {
			t.Errorf("other %d: %d bytes were fetched", n, got)
		}
	}
}

// While another process holds the lock of the directory, who opens a bucket waits, and who has one does not.
func TestLockedDirectory(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(dir, "lock")
	c, err := Open(dir, Options{})
	testenv.Must(t, err)
	open, another := &place{name: "s3://open"}, &place{name: "s3://another"}
	object(c, open, "a", unit)
	holder, err := os.OpenFile(lock, os.O_RDWR, 0)
	testenv.Must(t, err)
	defer holder.Close()
	testenv.Must(t, syscall.Flock(int(holder.Fd()), syscall.LOCK_EX))
	waiting := make(chan *Object, 2)
	for range 2 {
		go func() { waiting <- object(c, another, "a", unit) }()
	}
	testenv.EventuallyIs(t, "nobody waits for the lock", func() bool {
		files, n := "/proc/self/fd/", 0
		fds, _ := os.ReadDir(files)
		for _, fd := range fds {
			if path, _ := os.Readlink(files + fd.Name()); path == lock {
				n++
			}
		}
		return n == 2
	})
	read := make(chan error)
	go func() { read <- check(object(c, open, "a", unit), 0, unit) }()
	select {
	case err := <-read:
		testenv.Must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the reader of an open bucket waits")
	}
	if n := len(c.all()); n != 1 {
		t.Errorf("%d buckets are open", n)
	}
	holder.Close()
	testenv.Must(t, c.Close()) // while the buckets are being opened
	if a, b := <-waiting, <-waiting; a.bucket != b.bucket || len(c.all()) != 2 {
		t.Errorf("one bucket was opened twice: %d are open", len(c.all()))
	}
	slots, err := cachedir.Open(dir).List()
	testenv.Must(t, err)
	if len(slots) != 2 || slots[0].InUse || slots[1].InUse {
		t.Errorf("after Close: %+v", slots)
	}
}

// Readers who miss the same blocks wait for one request.
func TestOneRequest(t *testing.T) {
	p := &place{name: "memory:", gate: make(chan struct{})}
	c := opened(t, t.TempDir(), Options{})
	o := object(c, p, "a", 64*unit)
	o.Scattered()
	var readers sync.WaitGroup
	for i := range int64(32) {
		readers.Go(func() {
			if err := check(o, 4*unit+i%2*5000, 10*unit); err != nil {
				t.Error(err)
			}
		})
	}
	testenv.EventuallyIs(t, "no request", func() bool { return p.requests.Load() > 0 })
	close(p.gate)
	readers.Wait()
	// Those that reach further ask for what is missing there.
	if p.requests.Load() > 2 || p.bytes.Load() > 10*unit+5000+unitBytes {
		t.Errorf("%d requests for %d bytes", p.requests.Load(), p.bytes.Load())
	}
}

// Missing blocks with few others between them are one request, and a long range is several.
func TestMerges(t *testing.T) {
	p := &place{name: "memory:"}
	c := opened(t, t.TempDir(), Options{})
	o := object(c, p, "a", 400*unit)
	asked := func(off, n int64, requests, blocks int64) {
		t.Helper()
		r, b := p.requests.Load(), p.bytes.Load()
		testenv.Must(t, check(o, off*unit, n*unit))
		c.waitWritten(t)
		if r, b = p.requests.Load()-r, p.bytes.Load()-b; r != requests || b != blocks*unit {
			t.Errorf("%d blocks from %d on: %d requests for %d bytes", n, off, r, b)
		}
	}
	asked(10, 1, 1, 1)
	asked(9, 3, 1, 3)    // one that is there, between
	asked(20, 5, 1, 5)   // 20 to 24
	asked(15, 20, 2, 15) // five are too many to fetch again
	asked(100, 300, 3, 300)
	asked(0, 1, 1, 1)
	asked(0, 1, 0, 0)
}

// Who reads a long object in order gets more with each request, up to 4 MiB, unless it says
// that it does not: then it gets what it asks for.
func TestInOrder(t *testing.T) {
	const blocks = 400 * unit / blockBytes
	doubled := int64(0)
	for n, long := 0, 1; n < blocks; n, long = n+long, min(2*long, aheadBytes/blockBytes) {
		doubled++
	}
	for scattered, want := range map[bool]int64{false: doubled, true: 2 * blocks} {
		p := &place{name: "memory:"}
		c := opened(t, t.TempDir(), Options{})
		o := object(c, p, "a", 400*unit)
		if scattered {
			o.Scattered()
		}
		for off := int64(0); off < o.Size(); off += blockBytes / 2 {
			testenv.Must(t, check(o, off, blockBytes/2))
		}
		if got := p.requests.Load(); got != want || p.bytes.Load() != o.Size() {
			t.Errorf("scattered %v: %d requests for %d bytes, want %d", scattered, got, p.bytes.Load(), want)
		}
	}
}

// Fetch brings what is then read without a request, and waits for nothing.
func TestFetch(t *testing.T) {
	p := &place{name: "memory:", gate: make(chan struct{})}
	c := opened(t, t.TempDir(), Options{})
	o := object(c, p, "a", 200*unit)
	o.Fetch(-5, unit)
	o.Fetch(50*unit, 100*unit)
	o.Fetch(199*unit, 1<<40)
	o.Fetch(1<<40, 1)
	testenv.EventuallyIs(t, "fewer requests", func() bool {
		return p.requests.Load() == 2+(100*unit+aheadBytes-1)/aheadBytes
	})
	close(p.gate)
	c.waitWritten(t)
	before := p.requests.Load()
	testenv.Must(t, check(o, 50*unit, 100*unit))
	testenv.Must(t, check(o, 0, unit))
	testenv.Must(t, check(o, 199*unit, unit))
	if got := p.requests.Load() - before; got != 0 {
		t.Errorf("%d requests", got)
	}
	if s := c.Stats(); s.Misses != 0 || s.Cached != 102*unit {
		t.Errorf("%+v", s)
	}
}

// Of blocks of which a reader wants parts, these are fetched, each once, and are there for the next
// mount. What is read of the rest later is fetched then.
func TestPieces(t *testing.T) {
	const samples, long, shown = 60, 51_234, 23_456
	dir := t.TempDir()
	p := &place{name: "memory:"}
	read := func(c *Cache, n int64) {
		t.Helper()
		o := object(c, p, "a", samples*long)
		o.Scattered()
		for _, i := range rand.New(rand.NewPCG(testenv.Seed(t), 0)).Perm(samples) {
			testenv.Must(t, check(o, int64(i)*long, n))
			c.waitWritten(t)
		}
	}
	for mount := range 2 {
		c, err := Open(dir, Options{})
		testenv.Must(t, err)
		read(c, shown)
		if requests, bytes := p.requests.Load(), p.bytes.Load(); requests != samples || bytes > samples*(shown+2*unitBytes) {
			t.Errorf("mount %d: %d requests for %d bytes, of which %d were wanted", mount, requests, bytes, samples*shown)
		}
		if s := c.Stats(); s.Kept != p.bytes.Load() || s.Damaged+s.Skipped > 0 {
			t.Errorf("mount %d: %+v", mount, s)
		}
		testenv.Must(t, c.Close())
	}
	c := opened(t, dir, Options{})
	for range 2 {
		read(c, long)
		if requests, bytes := p.requests.Load(), p.bytes.Load(); requests > 2*samples || bytes != samples*long {
			t.Errorf("%d requests for %d bytes, of %d", requests, bytes, samples*long)
		}
	}
	if s := c.Stats(); s.Kept != samples*long {
		t.Errorf("%+v", s)
	}
}

// What could not be fetched ahead is fetched by its reader; a reader's own failure is told.
func TestFails(t *testing.T) {
	p := &place{name: "memory:", gate: make(chan struct{}, 1)}
	c := opened(t, t.TempDir(), Options{})
	o := object(c, p, "a", unit)
	p.fail(blob.ErrUnavailable)
	o.Fetch(0, 10)
	testenv.EventuallyIs(t, "no request", func() bool { return p.requests.Load() == 1 })
	done := make(chan error)
	go func() { done <- check(o, 0, 10) }()
	testenv.EventuallyIs(t, "no reader", func() bool { return o.bucket.round.missedBytes(o.bucket) > 0 })
	p.gate <- struct{}{}
	testenv.EventuallyIs(t, "no second request", func() bool { return p.requests.Load() == 2 })
	p.gate <- struct{}{}
	if err := <-done; !errors.Is(err, blob.ErrUnavailable) {
		t.Error(err)
	}
	p.fail(nil)
	p.gate <- struct{}{}
	testenv.Must(t, check(o, 0, 10))
}

func (r *round) missedBytes(s *bucketCache) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.missed
}

// Where a reader with checksums of its own says that bytes are wrong, they are fetched again.
func TestForget(t *testing.T) {
	p := &place{name: "memory:"}
	dir := t.TempDir()
	c := opened(t, dir, Options{})
	o := object(c, p, "a", 100*unit)
	testenv.Must(t, check(o, 0, 100*unit))
	c.waitWritten(t)
	o.Forget(3*unit+7, unit)
	testenv.Must(t, check(o, 0, 100*unit))
	if got := p.bytes.Load(); got != 101*unit+blockBytes {
		t.Errorf("%d bytes", got)
	}
	// Of blocks of which pieces are there, those go that are wrong.
	b := object(c, p, "b", 100*unit)
	b.Scattered()
	before := p.bytes.Load()
	for off := range int64(8) {
		testenv.Must(t, check(b, 3*unit+4*unitBytes*off, 4*unitBytes))
		c.waitWritten(t)
	}
	b.Forget(3*unit+5*unitBytes, 4*unitBytes)
	testenv.Must(t, check(b, 3*unit, blockBytes))
	if got := p.bytes.Load() - before; got != blockBytes+8*unitBytes {
		t.Errorf("%d bytes of pieces", got)
	}
}

// A directory of another user, or one that others may write to, is refused.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, os.Chmod(dir, 0o777))
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "chmod 700 "+dir) {
		t.Error(err)
	}
	testenv.Root(t)
	testenv.Must(t, os.Chmod(dir, 0o700))
	testenv.Must(t, os.Chown(dir, 1234, 1234))
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "belongs to the user 1234") {
		t.Error(err)
	}
	testenv.Must(t, os.Chown(dir, 0, 0))
	c := opened(t, dir, Options{})
	testenv.Must(t, check(object(c, &place{name: "memory:"}, "a", 10), 0, 10))
	c.waitWritten(t)
	testenv.Must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if info.Mode()&0o077 != 0 && filepath.Ext(path) != ".lock" && filepath.Base(path) != "lock" {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	}))
}

var sizes = []int64{1, 1000, unit, unit + 1, 3*unit + 5, 16 * unit, 16*unit + 1, 5 << 20, 40 << 20}

// randomRead reads a random piece of one of many objects, and may fetch another one ahead.
func randomRead(c *Cache, p *place, r *rand.Rand) error {
	n := r.IntN(40)
	size := sizes[n%len(sizes)]
	o := object(c, p, string(rune('a'+n)), size)
	if r.IntN(2) == 0 {
		o.Scattered()
	}
	off := r.Int64N(size)
	if r.IntN(5) == 0 {
		o.Fetch(r.Int64N(size), 1<<(r.IntN(22)))
	}
	return check(o, off, 1+r.Int64N(1<<r.IntN(20)))
}

// TestMemoryOfRequests bounds what requests that nobody waits for take at once.
func TestMemoryOfRequests(t *testing.T) {
	const size, fits = 1 << 20, 8
	c, p := opened(t, t.TempDir(), Options{MemoryBytes: fits * size}), &place{name: "s3://b", gate: make(chan struct{})}
	for i := range 4 * fits {
		object(c, p, fmt.Sprint(i), size).Fetch(0, size)
	}
	for answered := range int64(3 * fits) {
		testenv.EventuallyIs(t, "requests wait, and there is memory for them", func() bool { return p.requests.Load() >= fits+answered })
		if n := p.requests.Load(); n != fits+answered {
			t.Fatalf("%d requests of %d bytes were made, and %d answered, with memory for %d", n, size, answered, fits)
		}
		p.gate <- struct{}{}
	}
	close(p.gate)
	c.waitWritten(t)
}
