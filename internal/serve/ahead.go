package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/transcode"
)

// A file that readers have announced is loaded before they come: it is resolved and opened as
// for a reader, and all of its bytes lie in memory then, whether they are read or computed. It
// is not in the cache before somebody opens it, so that the policy of the cache sees the reads
// that there are. A reader that comes while its file is being loaded waits for that.
//
// What has to be computed is computed, and not only read: the reader has one copy to wait for,
// and more samples are decoded at once than there are readers, where there are cores. Where
// there are none it costs nothing: at most one sample a worker stands before a reader who comes
// for something else.

// MaxAhead is how many files are loaded at once for readers to come.
const MaxAhead = 64

// recentOpens is how many files are remembered that were opened last.
const recentOpens = 1 << 14

// Reasons why a file is not loaded.
var (
	// ErrAlready: it is in memory, is being loaded, or was opened since it was announced.
	ErrAlready = errors.New("the file is here already")
	// ErrTooLarge: it is larger than may be loaded.
	ErrTooLarge = errors.New("the file is too large to be loaded ahead of its readers")
)

// Target is a file in a view that may be loaded ahead of its readers. Both keys are those of
// the mount: Key of the file in the view, Original of the file as it is.
type Target struct {
	Key, Original Key
	File          File
	View          transcode.Pipeline
	// Since is when the reader announced it.
	Since time.Time
}

// aheads are the files that are loaded, or are being loaded, for readers to come.
type aheads struct {
	limiter *limiter
	used    atomic.Bool  // what is opened is remembered
	miss    atomic.Int64 // opens of others

	mu     sync.Mutex
	byKey  map[Key]*Ahead
	recent *lru.Map[Key, time.Time]
}

func (a *aheads) init(readers *limiter, workers int, bytes int64) {
	turns := newLimiter(workers, bytes)
	turns.compute = readers
	a.limiter = &limiter{places: semaphore.NewWeighted(MaxAhead), memory: turns.memory, bytes: turns.bytes, compute: turns}
	a.byKey, a.recent = map[Key]*Ahead{}, lru.New[Key, time.Time](0, recentOpens)
}

// Ahead is a file that is loaded ahead of its readers.
type Ahead struct {
	of    *aheads
	key   Key // of the content
	done  chan struct{}
	spent account.Spent // on loading it
	read  func(waited bool)
	put   sync.Once // the first reader puts it into the cache
	err   error     // of that

	// Guarded by of.mu. When done is closed, content is what was loaded, held; nil where that
	// failed, or was forgotten. given: a reader has it, and passes the hold on to the cache.
	content *Content
	given   bool
}

type aheadContext struct{}

// limiterFor is the limiter that computes for a caller: a reader, unless [Server.LoadAhead] says
// otherwise.
func (s *Server) limiterFor(ctx context.Context) *limiter {
	if ctx.Value(aheadContext{}) != nil {
		return s.aheads.limiter
	}
	return s.readers
}

// LoadAhead loads a file before its readers come, unless it is larger than most bytes, and
// returns its size. It is held until somebody opens it or Forget is called. read is called
// once, when a reader opens it; waited says that it was not loaded yet. read may be called
// before LoadAhead returns, and must not call the server.
func (s *Server) LoadAhead(ctx context.Context, t Target, most int64, read func(waited bool)) (*Ahead, int64, error) {
	n := &Ahead{of: &s.aheads, read: read, done: make(chan struct{})}
	defer close(n.done)
	content, err := s.loadAhead(context.WithValue(account.With(ctx, &n.spent), aheadContext{}, true), n, t, most)
	if err != nil {
		n.remove()
		return nil, 0, err
	}
	content.refs.Store(1)
	n.of.mu.Lock()
	n.content = content
	n.of.mu.Unlock()
	return n, content.size, nil
}

// loadAhead resolves, opens and reads a file. A panic is an error of ours, as it is to a reader.
func (s *Server) loadAhead(ctx context.Context, n *Ahead, t Target, most int64) (_ *Content, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = transcode.Errorf(transcode.ErrInternal, "loading %s: panic: %v", t.File.Path, r)
			s.stats.panics.Add(1)
		}
	}()
	h, err := s.resolve(ctx, t.Key, t.File, t.View, Planned)
	if err == nil && h.size > most {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	if n.key = t.Key; h.Unchanged() {
		n.key = t.Original // under which it is read
	}
	if err := s.beginAhead(n, t.Since); err != nil {
		return nil, err
	}
	c, err := s.open(ctx, h)
	if err == nil && c.size > most {
		c.reader.Close()
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	lap := n.spent.Lap()
	defer lap.End(account.Source)
	return s.intoBytes(c, h)
}

// beginAhead notes that a file is going to be loaded that was announced at a time.
func (s *Server) beginAhead(n *Ahead, since time.Time) error {
	if s.cache.inMemory(n.key) {
		return ErrAlready
	}
	a := n.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.recent.Get(n.key); ok && at.After(since) || a.byKey[n.key] != nil {
		return ErrAlready
	}
	a.byKey[n.key] = n
	return nil
}

// remove takes a file out of the table, and returns its content unless a reader has it.
func (n *Ahead) remove() (content *Content) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	if n.of.byKey[n.key] == n {
		delete(n.of.byKey, n.key)
	}
	content, n.content = n.content, nil
	if n.given {
		return nil
	}
	return content
}

// intoBytes reads content into memory that is not there.
func (s *Server) intoBytes(c *Content, h *Handle) (*Content, error) {
	if _, ok := c.reader.(memory); ok {
		return c, nil
	}
	defer c.reader.Close()
	// A result that is in no cache: its memory is used again when the content is released.
	made := (&result{from: &s.outputs, buffer: s.outputs.get(c.size)}).hold()
	n, err := c.reader.ReadAt(made.buffer, 0)
	s.stats.fetched.Add(int64(n))
	if int64(n) < c.size {
		made.release()
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s: %d bytes where %d were promised: %w", h.file.Path, n, c.size, io.ErrUnexpectedEOF)
		}
		return nil, err
	}
	made.split = transcode.Split{Data: made.buffer, Ends: []int{len(made.buffer)}}
	return &Content{size: c.size, cost: c.size, reader: memory{data: made.buffer, made: made}}, nil
}

// Forget gives up a file that was loaded and that nobody has read.
func (n *Ahead) Forget() {
	if content := n.remove(); content != nil {
		content.Release()
	}
}

// openAhead returns the content of a file that is loaded, or being loaded, or is in the cache,
// pinned, or nil.
func (s *Server) openAhead(ctx context.Context, h *Handle) (*Content, error) {
	a := &s.aheads
	if !a.used.Load() {
		return nil, nil
	}
	n := a.opened(h.key)
	if n == nil {
		return h.Cached(), nil // it may have come into the cache while we looked
	}
	asked, waited := time.Now(), false
	select {
	case <-n.done:
	default:
		waited = true
		select {
		case <-n.done:
			account.From(ctx).Share(&n.spent, time.Since(asked))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c := n.take()
	if c == nil {
		return h.Cached(), nil // could not be loaded: the reader finds out himself why
	}
	n.put.Do(func() {
		s.stats.opened.Add(1)
		kept, err := s.cache.put(h.key, c, s) // with the hold of the table
		if n.err = err; err == nil {
			kept.Release() // each reader has one of his own
		}
		// Only now: another reader of the same file finds it here or in the cache.
		n.remove()
		n.read(waited)
	})
	if n.err != nil {
		c.Release()
		return nil, n.err
	}
	return c, nil
}

// take returns what was loaded, pinned for a reader who puts it into the cache; or nil.
func (n *Ahead) take() *Content {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	if n.content != nil {
		n.given = true
		n.content.Pin()
	}
	return n.content
}

// opened notes that a reader opens a file, and returns it if it is loaded or being loaded.
func (a *aheads) opened(key Key) *Ahead {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent.Put(key, time.Now(), 0)
	n := a.byKey[key]
	if n == nil {
		a.miss.Add(1)
	}
	return n
}

// Unhinted is how many files were opened that nobody had announced, or not in time, since it
// was first asked for. From then on it is remembered what is opened.
func (s *Server) Unhinted() int64 {
	s.aheads.used.Store(true)
	return s.aheads.miss.Load()
}
