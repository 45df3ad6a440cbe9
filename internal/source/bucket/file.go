package bucket

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store/blob"
)

const (
	// wholeBytes is the longest object that is fetched in one request, in bytes.
	wholeBytes = 4 << 20
	// blockBytes is what is fetched at once of a longer one.
	blockBytes = 1 << 20
	// headerBytes is what is fetched at once of one of which only the header is wanted.
	headerBytes = 64 << 10
)

// blockOf is how much of an object is fetched at once.
func blockOf(size int64) int64 {
	if size <= wholeBytes {
		return max(size, 1)
	}
	return blockBytes
}

// file is an open object. What is fetched of it is kept in memory for a while: most readers read
// the header first and the rest at once, or all of it in pieces, and each request would take a round
// trip.
type file struct {
	source.File // that it is
	of          *Bucket
	name        string
	body        *blockcache.Object
	block       int64 // bytes that are fetched at once, from a multiple of them on
	changed     atomic.Bool
	first, last int64 // where the blocks in windows begin and end; guarded by its mu
}

// Name implements [source.Opened].
func (f *file) Name() string { return f.of.name(f.name) }

// Close implements [source.Opened].
func (f *file) Close() error {
	f.of.windows.drop(f)
	return f.body.Close()
}

// Scattered implements [source.Opened].
func (f *file) Scattered() { f.block = min(f.block, headerBytes) }

// Fetch implements [source.Opened]: it begins to fetch the range into the block cache.
func (f *file) Fetch(off, n int64) { f.body.Fetch(off, n) }

// Verify implements [source.Opened]. Each request names the version.
func (f *file) Verify() error {
	if f.changed.Load() {
		return f.of.changed(f, nil)
	}
	return nil
}

// ReadAt implements [source.Opened].
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	limit := f.of.o.Limit
	if limit == nil {
		return f.readAt(b, off)
	}
	began := limit.Begin()
	n, err := f.readAt(b, off)
	limit.Done(began, n)
	return n, err
}

func (f *file) readAt(b []byte, off int64) (n int, err error) {
	size := f.Identity.Size
	end := io.EOF
	switch {
	case len(b) == 0:
		return 0, nil
	case off < 0 || off >= size:
		return 0, end
	}
	if int64(len(b)) <= size-off {
		end = nil
	} else {
		b = b[:size-off]
	}
	for n < len(b) {
		at := off + int64(n)
		first := at - at%f.block
		length := min(f.block, size-first)
		if to := b[n:]; at == first && int64(len(to)) >= length && !f.of.windows.has(f, first) {
			// the whole block, and perhaps more behind it, is wanted here
			whole := to[:int64(len(to))/f.block*f.block]
			if int64(len(to)) == size-at {
				whole = to
			}
			if err := f.fetch(whole, at); err != nil {
				return n, err
			}
			n += len(whole)
			continue
		}
		block, err := f.of.windows.get(f, first, length)
		if err != nil {
			return n, err
		}
		n += copy(b[n:], block[at-first:])
	}
	return n, end
}

// fetch reads a range of the object, which lies in it.
func (f *file) fetch(b []byte, off int64) error {
	n, err := f.body.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, blob.ErrChanged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return f.of.changed(f, err)
	}
	return err
}

// DefaultMemoryBytes is 64 MiB.
const DefaultMemoryBytes = 64 << 20

// windows are the blocks of open objects that were fetched last. Several readers of a block that
// is not there wait for one request.
type windows struct {
	mu     sync.Mutex
	blocks *lru.Map[window, *fetched]
}

// window is a block of an open object.
type window struct {
	f   *file
	off int64
}

// fetched is a block, complete once done is closed.
type fetched struct {
	done chan struct{}
	b    []byte
	err  error
}

func (w *windows) init(memory int64) {
	if memory == 0 {
		memory = DefaultMemoryBytes
	}
	w.blocks = lru.New[window, *fetched](memory, 1<<16)
}

// has reports whether a block is there, or on its way.
func (w *windows) has(f *file, off int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.blocks.Get(window{f, off})
	return ok
}

// get returns a block, which is not to be changed.
func (w *windows) get(f *file, off, length int64) ([]byte, error) {
	w.mu.Lock()
	if e, ok := w.blocks.Get(window{f, off}); ok {
		w.mu.Unlock()
		<-e.done
		return e.b, e.err
	}
	e := &fetched{done: make(chan struct{})}
	w.blocks.Put(window{f, off}, e, length)
	if f.last == 0 {
		f.first = off
	}
	f.first, f.last = min(f.first, off), max(f.last, off+length)
	w.mu.Unlock()
	b := make([]byte, length)
	if e.err = f.fetch(b, off); e.err == nil {
		e.b = b
	} else {
		w.mu.Lock()
		if now, ok := w.blocks.Get(window{f, off}); ok && now == e {
			w.blocks.Remove(window{f, off})
		}
		w.mu.Unlock()
	}
	close(e.done)
	return e.b, e.err
}

// drop forgets the blocks of a file.
func (w *windows) drop(f *file) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for off := f.first; off < f.last; off += f.block {
		w.blocks.Remove(window{f, off})
	}
}
