package serve

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/pipefs/pipefs/store"
)

// A copy is a representation that can be made again: of an overlay, or of a
// fraction. When it turns out damaged, or is taken away while it is in use, what it
// stands for is made from the others, and no reader notices.

// lost reports whether an error means that a copy is of no use.
func lost(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrNotFound)
}

// fallback returns the candidates that are no copies, where a copy is lost; ok is false
// if that is no reason or there are none. The copies are forgotten, so that they are
// made again.
func (s *Server) fallback(h *Handle, from candidates, err error) (rest candidates, ok bool) {
	if !lost(err) {
		return nil, false
	}
	isCopy := func(c candidate) bool { return c.in != nil }
	rest = slices.DeleteFunc(slices.Clone(from), isCopy)
	if len(rest) == 0 || len(rest) == len(from) {
		return nil, false
	}
	for _, c := range from {
		if isCopy(c) {
			c.in.Forget(h.file.Path, storedAs(h.file.Identity), c.key)
		}
	}
	s.stats.fallbacks.Add(1)
	s.log.Warn("a stored copy cannot be read; its bytes are made again. pipefs check tells what is damaged", "sample", h.file.Path, "view", h.view, "cause", err)
	return rest, true
}

// fallbackReader reads what may be lost while it is read, and something else from then
// on.
type fallbackReader struct {
	sized
	// instead opens the other, or returns the cause where there is none.
	instead func(cause error) (*Content, error)

	mu    sync.Mutex
	other *Content
}

// ReadAt implements [io.ReaderAt].
func (r *fallbackReader) ReadAt(b []byte, off int64) (int, error) {
	r.mu.Lock()
	other := r.other
	r.mu.Unlock()
	if other == nil {
		n, err := r.sized.ReadAt(b, off)
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if other, err = r.replace(err); err != nil {
			return 0, err
		}
	}
	return other.ReadAt(b, off)
}

// replace opens the other, once for all readers.
func (r *fallbackReader) replace(cause error) (*Content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.other == nil {
		c, err := r.instead(cause)
		if err != nil {
			return nil, err
		}
		c.refs.Store(1)
		r.other = c
	}
	return r.other, nil
}

// Close implements [io.Closer].
func (r *fallbackReader) Close() error {
	if r.other != nil {
		r.other.Release()
	}
	return r.sized.Close()
}
