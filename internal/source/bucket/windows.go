package bucket

import (
	"sync"

	"github.com/pipefs/pipefs/internal/lru"
)

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
