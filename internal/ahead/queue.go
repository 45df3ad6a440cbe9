// Package ahead loads files before they are read, in the order that their readers have
// announced. Where the source is far away, a program that reads one file after the other waits
// for a round trip each; with hints these overlap.
//
// # Nouns
//
// A hint is a file of the mount of which a reader says that it is going to read it. The hints of
// one sender, in their order, are a stream. A stream sends messages: paths, or places in a list
// of samples of which it tells the digest. A message is an ioctl on any directory of the mount:
// whoever can read there can send it, in a container, too, and as another user, where the
// control socket cannot be reached. It is bounded by the kernel: [MaxMessage].
//
// The window of a stream is how many of its files are loaded ahead of its reader. It is doubled
// when a reader has to wait for a file that is being loaded, and halved when files that were
// loaded are not read; it shrinks while no reader waits. All streams together have a budget of bytes and of files. Where that is
// used up, nothing more is loaded before something is read.
//
// A file that was loaded and that nobody has read is dropped when its reader goes on, when its
// reader reads other files, and after a while. Nothing that is hinted changes what a reader
// gets: a hint that is wrong costs a load.
package ahead

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// Tree is the mount as far as names go.
type Tree interface {
	// Target is what a path below the root of the mount leads to. Where it is no file whose
	// bytes are known before it is opened, that is an error.
	Target(ctx context.Context, path string) (serve.Target, error)
	// View is the view that a path leads to.
	View(path string) (transcode.Pipeline, error)
	// Listed is the path under which a view lists a file of the dataset.
	Listed(p transcode.Pipeline, path string) (string, error)
}

// Options of New.
type Options struct {
	Server *serve.Server
	// Lists tells what the samples of a directory are; nil refuses all orders.
	Lists *epoch.Views
	// Budget bounds the bytes of files that are loaded and that nobody has read.
	Budget int64
	Log    *slog.Logger // nil is silent
}

const (
	// maxFiles is how many files are loaded, or are being loaded, and not read.
	maxFiles = 1024
	// firstWindow is that of a stream of which nothing was read yet.
	firstWindow = 16
	// calmWindows is after how many windows without waiting a window shrinks.
	calmWindows = 4
	// usual is how large a file is taken to be before any is known, in bytes.
	usual = 128 << 10
	// maxWaiting bounds the memory for hints of which nothing is loaded yet, in bytes.
	maxWaiting = 64 << 20
	// maxStreams is how many senders there may be.
	maxStreams = 1024

	// tick is how often it is looked at what nobody has read.
	tick = time.Second
	// behind is how long a file that was loaded waits for its reader, who has read one that
	// comes later.
	behind = 2 * time.Second
	// stale is how long a file that was loaded waits for any reader; see Queue.
	stale = 30 * time.Second
	// silent is how long a stream is remembered of which nobody reads anything.
	silent = time.Hour
	// keptFiles is how many loaded files of an order wait for a reader who is at something
	// else: he need not read the first one, which the kernel may have.
	keptFiles = 8
	// astray is how many other files are opened before a stream of which nothing is read
	// counts as wrong.
	astray = 128
)

// Queue is what is announced. It is safe for concurrent use.
type Queue struct {
	o      Options
	tree   Tree
	lists  digests
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
	stale  time.Duration

	mu      sync.Mutex
	streams map[string]*stream
	waiting int64 // bytes of memory for hints
	loading int   // files
	unread  int   // files that are loaded or being loaded
	held    int64 // bytes of files that are loaded
	typical int64 // bytes of a file
	timer   *time.Timer
	stats   Stats
}

// stream is what one sender has announced.
type stream struct {
	name     string
	messages []*hints // of which something is not loaded yet
	window   int
	unread   []*file // in their order
	order    bool    // it is an order, and not paths
	calm     int     // reads in a row of files that were loaded by then
	reads    int     // since the last message
	begun    int     // files that are being loaded, or were, since the last message
	last     time.Time
	unhinted int64 // when something of it was read last
	paused   bool  // until something of it is read
	told     bool
}

// hints are those of a message that nobody has begun to load.
type hints struct {
	paths []string
	order []uint32
	list  *list
	since time.Time
	bytes int64
}

// file is one that is loaded, or is being loaded.
type file struct {
	of     *stream
	path   string
	cancel context.CancelFunc
	ahead  *serve.Ahead // nil while it is being loaded
	size   int64
	at     time.Time // when it was loaded
	taken  bool      // off its stream: read, or dropped
}

// New returns a queue; Close ends what it loads.
func New(o Options) *Queue {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	q := &Queue{o: o, streams: map[string]*stream{}, stale: stale, typical: usual}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	q.timer = time.AfterFunc(time.Hour, q.look)
	q.timer.Stop()
	return q
}

// Use says of which mount the files are. It comes first.
func (q *Queue) Use(t Tree) { q.tree = t }

// Close drops everything, and waits for what is being loaded.
func (q *Queue) Close() error {
	q.cancel()
	q.mu.Lock()
	q.timer.Stop()
	for _, s := range q.streams {
		q.end(s)
	}
	q.mu.Unlock()
	q.ended.Wait()
	return nil
}

// Take takes a message. It waits for nothing but the list of an order. The error says why it is
// refused.
func (q *Queue) Take(message []byte) error {
	h, rest, err := parse(message)
	if err != nil {
		return err
	}
	next := &hints{since: time.Now()}
	if h.Digest != "" {
		if next.list, err = q.list(h); err == nil {
			next.order, err = places(rest, next.list.len())
		}
		next.bytes = int64(4 * len(next.order))
	} else {
		next.paths, err = paths(rest)
		next.bytes = int64(len(rest) + 16*len(next.paths))
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil {
		return q.ctx.Err()
	}
	s := q.stream(h.Stream)
	if h.Replace {
		q.replace(s)
	}
	if q.waiting+next.bytes > maxWaiting {
		return fmt.Errorf("%d MiB of hints wait already: send them later", q.waiting>>20)
	}
	s.last, s.order = time.Now(), next.list != nil
	if n := next.left(); n > 0 {
		q.stats.Hinted += int64(n)
		q.waiting += next.bytes
		s.messages = append(s.messages, next)
	}
	q.pump()
	return nil
}

// stream returns a stream, made if it is new. The caller holds mu.
func (q *Queue) stream(name string) *stream {
	s := q.streams[name]
	if s != nil {
		return s
	}
	if len(q.streams) >= maxStreams {
		var oldest *stream
		for _, other := range q.streams {
			if oldest == nil || other.last.Before(oldest.last) {
				oldest = other
			}
		}
		q.end(oldest)
	}
	if len(q.streams) == 0 {
		q.timer.Reset(tick)
	}
	s = &stream{name: name, window: firstWindow, unhinted: q.o.Server.Unhinted()}
	q.streams[name] = s
	return s
}

// replace drops what a stream has announced before. The caller holds mu.
func (q *Queue) replace(s *stream) {
	if s.begun > 0 && s.reads == 0 {
		s.window = max(1, s.window/2)
		q.astray(s)
	}
	q.empty(s)
	s.reads, s.begun, s.paused = 0, 0, false
}

// empty drops all files and hints of a stream. The caller holds mu.
func (q *Queue) empty(s *stream) {
	for _, f := range slices.Clone(s.unread) {
		q.drop(f)
	}
	for _, m := range s.messages {
		q.stats.Dropped += int64(m.left())
		q.waiting -= m.bytes
	}
	s.messages = nil
}

// end forgets a stream. The caller holds mu.
func (q *Queue) end(s *stream) {
	q.empty(s)
	delete(q.streams, s.name)
}

func (m *hints) left() int { return len(m.paths) + len(m.order) }

// next takes the first hint of a stream, with mu held.
func (q *Queue) next(s *stream) (path string, since time.Time) {
	m := s.messages[0]
	if m.list != nil {
		path, m.order = m.list.path(int(m.order[0])), m.order[1:]
	} else {
		path, m.paths = m.paths[0], m.paths[1:]
	}
	if m.left() == 0 {
		q.waiting -= m.bytes
		s.messages = s.messages[1:]
	}
	return path, m.since
}

// pump begins to load files as long as there is room. The caller holds mu.
func (q *Queue) pump() {
	for q.loading < serve.MaxAhead && q.unread < maxFiles && q.ctx.Err() == nil {
		if q.held+int64(q.loading+1)*q.typical > q.o.Budget && q.unread > 0 {
			return
		}
		// The one that is the least ahead of its reader.
		var s *stream
		for _, other := range q.streams {
			if len(other.messages) > 0 && !other.paused && len(other.unread) < other.window && (s == nil || len(other.unread) < len(s.unread)) {
				s = other
			}
		}
		if s == nil {
			return
		}
		path, since := q.next(s)
		f := &file{of: s, path: path}
		s.unread = append(s.unread, f)
		s.begun++
		q.unread++
		q.loading++
		var ctx context.Context
		ctx, f.cancel = context.WithCancel(q.ctx)
		q.ended.Go(func() { q.load(ctx, f, since) })
	}
}

// load loads a file.
func (q *Queue) load(ctx context.Context, f *file, since time.Time) {
	defer f.cancel()
	t, err := q.tree.Target(ctx, f.path)
	var ahead *serve.Ahead
	var size int64
	if err == nil {
		t.Since = since
		ahead, size, err = q.o.Server.LoadAhead(ctx, t, q.o.Budget, func(waited bool) { q.read(f, waited) })
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loading--
	switch {
	case err != nil:
		q.failed(f, err)
	case f.taken:
		ahead.Forget() // nothing, where it was read
	case q.held+size > q.o.Budget: // several are larger than what was known of files
		q.take(f)
		q.stats.Wasted++
		ahead.Forget()
	default:
		f.ahead, f.size, f.at = ahead, size, time.Now()
		q.held += size
	}
	if err == nil {
		q.stats.Loaded++
		q.typical += (size - q.typical) / 8
	}
	q.pump()
}

// take takes a file off its stream, and returns false where that was done before. The
// caller holds mu.
func (q *Queue) take(f *file) bool {
	if f.taken {
		return false
	}
	f.taken = true
	q.unread--
	q.held -= f.size
	if i := slices.Index(f.of.unread, f); i >= 0 {
		f.of.unread = slices.Delete(f.of.unread, i, i+1)
	}
	return true
}

// drop gives up a file that nobody has read. The caller holds mu.
func (q *Queue) drop(f *file) {
	if !q.take(f) {
		return
	}
	if f.ahead == nil {
		f.cancel()
		q.stats.Dropped++
		return
	}
	q.stats.Wasted++
	f.ahead.Forget()
}
