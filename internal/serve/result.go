package serve

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/pipefs/pipefs/transcode"
)

// resultKey names a result: a version of a file and what was made of it.
type resultKey struct {
	file File
	plan string
}

// result is a result in memory, or the error that is there instead. It is
// complete when done is closed. The cache of results holds it, and so does
// every caller that got it from make or recent, until release.
type result struct {
	key   resultKey
	done  chan struct{}
	split transcode.Split // a whole result is the only part
	err   error
	// shared: files of several views are parts of it.
	shared bool
	// stop ends the attempt of the background that is making it; nil where a reader
	// is. Readers do not wait for a thread of low priority.
	stop context.CancelFunc

	holders atomic.Int32
	// buffer is where the result lies, if others may have that memory afterwards.
	buffer []byte
	from   *buffers
	into   []byte // see compute
}

func (m *result) hold() *result {
	m.holders.Add(1)
	return m
}

// release ends one hold.
func (m *result) release() {
	if m.holders.Add(-1) == 0 && m.buffer != nil {
		m.from.put(m.buffer)
	}
}

// cut is the part of a result's data that a handle takes.
func (m *result) cut(h *Handle) (data []byte, err error) {
	head, ok := h.plan.Head()
	if !ok || h.plan.Len() > 1 {
		return m.split.Data, nil
	}
	if head.Arg > len(m.split.Levels) {
		return nil, transcode.Errorf(transcode.ErrInternal, "%s: there are %d levels", head, len(m.split.Levels))
	}
	return m.split.Data[:m.split.Ends[m.split.Levels[head.Arg-1]-1]], nil
}

// content opens the result as a handle's content, and passes its hold on to it.
func (m *result) content(h *Handle) (*Content, error) {
	data, err := m.cut(h)
	if err != nil {
		m.release()
		return nil, err
	}
	size := int64(len(data) + len(m.split.Tail))
	return &Content{size: size, cost: size, reader: memory{data, m.split.Tail, m}}, nil
}

// size is that of a handle's content.
func (m *result) size(h *Handle) (int64, error) {
	data, err := m.cut(h)
	return int64(len(data) + len(m.split.Tail)), err
}

// recent returns a result that is still in memory, or nil.
func (s *Server) recent(h *Handle) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.results.Get(resultKey{h.file, h.result})
	if !ok {
		return nil
	}
	if made.complete() && made.err == nil {
		return made.hold()
	}
	return nil
}

// complete reports whether done is closed.
func (m *result) complete() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// make makes the result of a handle from one candidate, once: everybody who wants
// it meanwhile waits for the same one. A reader does not wait for the background: it
// makes the result itself, and the background's attempt ends. Without an error the
// result has to be released.
func (s *Server) make(ctx context.Context, by *crew, h *Handle, from *candidate) (*result, error) {
	key := resultKey{h.file, h.result}
	for {
		s.mu.Lock()
		made, ok := s.results.Get(key)
		if ok && by != s.idlers && made.stop != nil && !made.complete() {
			made.stop()
			ok = false
		}
		if !ok {
			_, parts := h.plan.Head()
			made = (&result{key: key, done: make(chan struct{}), from: &s.outputs, shared: parts}).hold()
			making := ctx
			if by == s.idlers {
				making, made.stop = context.WithCancel(ctx)
				defer made.stop()
			}
			s.remember(made, 0)
			s.mu.Unlock()
			s.finish(making, by, made, h, from)
		} else {
			made.hold()
			s.mu.Unlock()
			select {
			case <-made.done:
			case <-ctx.Done():
				made.release()
				return nil, ctx.Err()
			}
		}
		if made.err == nil {
			return made, nil
		}
		made.release()
		// The one who was making it may have been interrupted; we were not.
		if ok && (errors.Is(made.err, context.Canceled) || errors.Is(made.err, context.DeadlineExceeded)) {
			s.forget(made)
			continue
		}
		return nil, made.err
	}
}

// remember puts a result into the cache, with s.mu held. One of the same key goes.
func (s *Server) remember(made *result, cost int64) {
	made.hold()
	for _, dropped := range s.results.Put(made.key, made, cost) {
		dropped.release()
	}
}

// forget removes a result from the cache unless another has taken its place.
func (s *Server) forget(made *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.results.Get(made.key); ok && now == made {
		s.results.Remove(made.key)
		made.release()
	}
}
