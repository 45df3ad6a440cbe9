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
	any     atomic.Int64 // how many there are: without any, a reader does not take the lock
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
	of       *aheads
	keys     [2]Key // by which it is found; the content is that of the second one
	view     transcode.Pipeline
	resolved chan struct{}
	resolve  sync.Once
	handle   *Handle // of the file in the view, valid when resolved is closed; nil where that failed
	done     chan struct{}
	spent    account.Spent // on loading it
	read     func(waited bool)

	// Guarded by of.mu. When done is closed, content is what was loaded; nil where that
	// failed. It is held as long as a reader can find it.
	content *Content
	err     error         // of putting it into the cache
	waiting int           // readers
	opening bool          // the first reader puts it into the cache
	opened  chan struct{} // closed when that is done
	given   bool          // nobody can find it any more
	forget  bool          // as soon as no reader waits
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
	a, err := s.aheads.begin(s, t, read)
	if err != nil {
		return nil, 0, err
	}
	content, err := s.loadAhead(context.WithValue(account.With(ctx, &a.spent), aheadContext{}, true), a, t, most)
	if err != nil {
		a.of.mu.Lock()
		a.take()
		a.of.mu.Unlock()
		close(a.done)
		return nil, 0, err
	}
	content.refs.Store(1)
	size := content.size // the first reader may change the rest of it
	a.of.mu.Lock()
	a.content = content
	a.of.mu.Unlock()
	close(a.done)
	return a, size, nil
}

// begin notes that a file is going to be loaded.
func (a *aheads) begin(s *Server, t Target, read func(bool)) (*Ahead, error) {
	if s.cache.inMemory(t.Key) || s.cache.inMemory(t.Original) {
		return nil, ErrAlready
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range []Key{t.Key, t.Original} {
		if a.byKey[key] != nil {
			return nil, ErrAlready
		}
		if at, ok := a.recent.Get(key); ok && at.After(t.Since) {
			return nil, ErrAlready
		}
	}
	n := &Ahead{of: a, keys: [2]Key{t.Key, t.Key}, view: t.View, read: read, resolved: make(chan struct{}), done: make(chan struct{}), opened: make(chan struct{})}
	a.byKey[t.Key] = n
	a.any.Add(1)
	return n, nil
}

// loadAhead resolves, opens and reads a file. A panic is an error of ours, as it is to a reader.
func (s *Server) loadAhead(ctx context.Context, a *Ahead, t Target, most int64) (_ *Content, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = transcode.Errorf(transcode.ErrInternal, "loading %s: panic: %v", t.File.Path, r)
			s.stats.panics.Add(1)
		}
		a.resolve.Do(func() { close(a.resolved) })
	}()
	h, err := s.resolve(ctx, t.Key, t.File, t.View, Sized)
	if err == nil && h.size > most {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	a.handle = h
	if h.Unchanged() && t.Key != t.Original {
		// It is read under the key that it has as it is.
		if h, err = s.resolve(ctx, t.Original, t.File, transcode.Pipeline{}, Sized); err == nil {
			h.probed.Store(a.handle.probed.Swap(nil))
			defer h.closeProbed()
			err = a.alias(t.Original)
		}
	}
	a.resolve.Do(func() { close(a.resolved) })
	if err != nil {
		return nil, err
	}
	c, err := s.open(ctx, h)
	if err != nil {
		return nil, err
	}
	lap := a.spent.Lap()
	defer lap.End(account.Source)
	return s.intoBytes(c, h)
}

// alias makes a file known by the key of the file as it is.
func (n *Ahead) alias(key Key) error {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	if n.of.byKey[key] != nil {
		return ErrAlready
	}
	n.keys[1] = key
	n.of.byKey[key] = n
	return nil
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

// Forget gives up a file that was loaded and that nobody has read. A reader who waits for it
// gets it.
func (n *Ahead) Forget() {
	n.of.mu.Lock()
	n.forget = true
	drop := n.dropped()
	n.of.mu.Unlock()
	drop()
}

// take takes a file out of the table, with mu held.
func (n *Ahead) take() {
	if n.given {
		return
	}
	n.given = true
	for _, key := range n.keys {
		if n.of.byKey[key] == n {
			delete(n.of.byKey, key)
		}
	}
	n.of.any.Add(-1)
}

// dropped takes a file out of the table that nobody wants, with mu held. What it returns
// releases the content, without mu.
func (n *Ahead) dropped() func() {
	content := n.content
	if n.waiting > 0 || !n.forget || content == nil {
		return func() {}
	}
	n.take()
	n.content = nil
	return content.Release
}

// find returns a file for a reader who is going to wait for it, or nil.
func (a *aheads) find(key Key) *Ahead {
	if a.any.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.byKey[key]
	if n != nil {
		n.waiting++
	}
	return n
}

// leave is the end of find.
func (n *Ahead) leave() {
	n.of.mu.Lock()
	n.waiting--
	drop := n.dropped()
	n.of.mu.Unlock()
	drop()
}

// resolveAhead returns the handle of a file that is being loaded, or nil.
func (s *Server) resolveAhead(ctx context.Context, key Key, f File, v transcode.Pipeline, most Effort) *Handle {
	n := s.aheads.find(key)
	if n == nil {
		return nil
	}
	defer n.leave()
	ready := n.resolved
	if most == Verified {
		ready = n.done
	}
	if most >= Sized {
		select {
		case <-ready:
		case <-ctx.Done():
			return nil
		}
	}
	select {
	case <-n.resolved:
	default:
		return nil
	}
	if most == Verified {
		n.of.mu.Lock()
		loaded := n.content != nil
		n.of.mu.Unlock()
		if !loaded {
			return nil
		}
	}
	// A view of what is stored shares keys with the view of all samples.
	if h := n.handle; h != nil && h.key == key && h.file == f && h.view.Stored() == v.Stored() {
		return h
	}
	return nil
}

// openAhead returns the content of a file that is loaded, or being loaded, or is in the cache,
// pinned, or nil.
func (s *Server) openAhead(ctx context.Context, h *Handle) (*Content, error) {
	a := &s.aheads
	if !a.used.Load() {
		return nil, nil
	}
	a.opened(h.key)
	n := a.find(h.key)
	if n == nil {
		return h.Cached(), nil // it may have come into the cache while we looked
	}
	defer n.leave()
	waited := false
	select {
	case <-n.done:
	default:
		waited = true
		asked := time.Now()
		select {
		case <-n.done:
			account.From(ctx).Share(&n.spent, time.Since(asked))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.mu.Lock()
	c, first := n.content, !n.opening
	if n.keys[1] != h.key {
		// A view of what is stored shows the file as it is, and this reader's view, which shares the key, does not.
		a.mu.Unlock()
		return h.Cached(), nil
	}
	n.opening = n.opening || c != nil
	a.mu.Unlock()
	switch {
	case c == nil:
		return nil, nil // could not be loaded: the reader finds out himself why
	case first:
		n.intoCache(s, h.key, c)
		n.read(waited)
	}
	select {
	case <-n.opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.err == nil {
		n.content.Pin()
	}
	return n.content, n.err
}

// intoCache puts what was loaded into the cache, as if it had just been opened.
func (n *Ahead) intoCache(s *Server, key Key, c *Content) {
	s.stats.opened.Add(1)
	c, err := s.cache.put(key, c, s) // with the hold of the table
	n.of.mu.Lock()
	// Only now: another reader of the same file finds it here or in the cache.
	n.take()
	n.content, n.err, n.forget = c, err, true // the last reader who waits releases it
	n.of.mu.Unlock()
	close(n.opened)
}

// opened notes that a reader opens a file.
func (a *aheads) opened(key Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent.Put(key, time.Now(), 0)
	if a.byKey[key] == nil {
		a.miss.Add(1)
	}
}

// Unhinted is how many files were opened that nobody had announced, or not in time, since it
// was first asked for. From then on it is remembered what is opened.
func (s *Server) Unhinted() int64 {
	s.aheads.used.Store(true)
	return s.aheads.miss.Load()
}
