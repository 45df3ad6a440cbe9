package vfs

import (
	"sync"
	"time"
)

// Bucket limits how fast files are read, in bytes and in reads a second, for
// measurements on machines that cannot have their disk slowed down. All that draw
// on one bucket share its limits. Data in the page cache is slowed down as well:
// a reader cannot know where it comes from. A nil Bucket limits nothing.
type Bucket struct {
	bytes, reads time.Duration // that a thousand million bytes take, and a read; 0: no limit

	mu sync.Mutex
	// When a disk of that speed would have done all that was read so far.
	bytesDone, readsDone time.Time
}

// burst is how much may be read at once after a pause: as much as the limit allows
// in this time, which is more than the system oversleeps.
const burst = 50 * time.Millisecond

// NewBucket returns a bucket; 0 is no limit, and nil is returned where neither is
// given.
func NewBucket(bytesPerSecond, readsPerSecond int64) *Bucket {
	if bytesPerSecond <= 0 && readsPerSecond <= 0 {
		return nil
	}
	b := &Bucket{}
	if bytesPerSecond > 0 {
		b.bytes = time.Duration(1e18 / float64(bytesPerSecond))
	}
	if readsPerSecond > 0 {
		b.reads = time.Duration(1e9 / float64(readsPerSecond))
	}
	return b
}

// Begin is when a read begins: it is to be given to Done.
func (b *Bucket) Begin() time.Time {
	if b == nil {
		return time.Time{}
	}
	return time.Now()
}

// Done accounts for one read of n bytes and waits until a disk that is as slow as
// the limits would have done it. The time that it really took counts. It does not
// allocate.
func (b *Bucket) Done(began time.Time, n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	if b.bytes > 0 {
		b.bytesDone = later(b.bytesDone, began.Add(-burst)).Add(time.Duration(float64(n) * float64(b.bytes) / 1e9))
	}
	if b.reads > 0 {
		b.readsDone = later(b.readsDone, began.Add(-burst)).Add(b.reads)
	}
	until := later(b.bytesDone, b.readsDone)
	b.mu.Unlock()
	time.Sleep(time.Until(until))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Throttled is fs, but its files are read no faster than limit allows; each ReadAt
// is one read, whatever its size. A nil limit leaves fs as it is.
func Throttled(fs FS, limit *Bucket) FS {
	if limit == nil {
		return fs
	}
	return throttled{fs, limit}
}

type throttled struct {
	FS
	limit *Bucket
}

// Open implements [FS].
func (t throttled) Open(name string) (File, error) { return t.file(t.FS.Open(name)) }

// Create implements [FS].
func (t throttled) Create(name string) (File, error) { return t.file(t.FS.Create(name)) }

// OpenWrite implements [FS].
func (t throttled) OpenWrite(name string) (File, error) { return t.file(t.FS.OpenWrite(name)) }

func (t throttled) file(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &throttledFile{f, t.limit}, nil
}

type throttledFile struct {
	File
	limit *Bucket
}

// ReadAt implements [io.ReaderAt].
func (f *throttledFile) ReadAt(p []byte, off int64) (int, error) {
	began := f.limit.Begin()
	n, err := f.File.ReadAt(p, off)
	f.limit.Done(began, n)
	return n, err
}

// Scattered implements [Advised].
func (f *throttledFile) Scattered() {
	if a, ok := f.File.(Advised); ok {
		a.Scattered()
	}
}

// Forget implements [Kept].
func (f *throttledFile) Forget(off, n int64) {
	if k, ok := f.File.(Kept); ok {
		k.Forget(off, n)
	}
}

// Fetch implements [Advised]: nothing is fetched ahead, as that would not wait.
func (f *throttledFile) Fetch(off, n int64) {}

// Ahead implements [Advised].
func (f *throttledFile) Ahead() (window, piece int64) { return 1 << 20, 1 << 20 }
