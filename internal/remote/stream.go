package remote

import (
	"io"
	"sync"
)

const (
	// windowBytes is how much of a stream is fetched at once, and windowsAhead how many
	// windows behind the one that is read.
	windowBytes  = 4 << 20
	windowsAhead = 3
)

// stream is a pack that is read from its first byte to its last, in small pieces: it is
// fetched in windows, some of them ahead of the reader. A read elsewhere, as of a footer, is
// answered too.
type stream struct {
	entry
	mu      sync.Mutex
	windows []*window // the one that was asked for last at the end
}

// window is a piece of a stream, fetched or about to be.
type window struct {
	n    int64 // its number
	done chan struct{}
	b    []byte
	err  error
}

// ReadAt implements [io.ReaderAt].
func (s *stream) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && off+int64(n) < s.info.Size {
		at := off + int64(n)
		w := s.window(at / windowBytes)
		<-w.done
		if w.err != nil {
			return n, s.fs.fail("read", s.info.Name, w.err)
		}
		n += copy(b[n:], w.b[at%windowBytes:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// window finds a window, and begins to fetch those behind it.
func (s *stream) window(number int64) *window {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.begin(number)
	for ahead := number + 1; ahead <= number+windowsAhead && ahead*windowBytes < s.info.Size; ahead++ {
		s.begin(ahead)
	}
	return w
}

func (s *stream) begin(number int64) *window {
	for _, w := range s.windows {
		if w.n == number {
			return w
		}
	}
	w := &window{n: number, done: make(chan struct{})}
	if len(s.windows) > 2*windowsAhead {
		s.windows = append(s.windows[:0], s.windows[1:]...)
	}
	s.windows = append(s.windows, w)
	go func() {
		defer close(w.done)
		w.b = make([]byte, min(windowBytes, s.info.Size-number*windowBytes))
		w.err = s.fs.objects.ReadAt(s.fs.ctx, s.info.Name, s.info.Version, w.b, number*windowBytes)
	}()
	return w
}

// Close implements [io.Closer].
func (s *stream) Close() error { return nil }
