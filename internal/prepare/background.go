package prepare

import (
	"context"
	"log/slog"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Background prepares the views that are in use: it makes ahead of time what
// is worth keeping, when nobody is waiting for anything else.
type Background struct {
	server  *serve.Server
	log     *slog.Logger
	workers int
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	tending sync.WaitGroup // of the overlay

	mu    sync.Mutex
	known map[string]bool
	queue chan transcode.Pipeline

	seen, prepared atomic.Int64
	view           atomic.Pointer[string] // being prepared
	patience       time.Duration          // how long Close waits
}

// maxViews bounds the views that are remembered as used.
const maxViews = 256

// Options of Start.
type Options struct {
	// Views prepares each view that is used, if the server keeps what is made.
	Views bool
	// Overlay gives back the space of what can no more be asked for; nil where there is
	// none.
	Overlay *store.Overlay
	// Workers is the number of samples made at once; 0 means one a core.
	Workers int
	Log     *slog.Logger // nil is silent
}

// Start begins to work for a server, before anybody uses it.
func Start(s *serve.Server, o Options) *Background {
	b := &Background{server: s, log: o.Log, workers: o.Workers, known: map[string]bool{}, queue: make(chan transcode.Pipeline, maxViews), patience: 5 * time.Second}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.workers == 0 {
		b.workers = runtime.GOMAXPROCS(0)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if n, ok := s.Total(); ok {
		s.SetTotal(n)
	} else if s.CountsTotal() {
		b.wg.Go(b.countAll)
	}
	if o.Overlay != nil {
		b.tending.Go(func() { o.Overlay.Tend(b.ctx, b.current) })
	}
	if o.Views && s.Keeps() {
		s.OnUse(b.use)
		b.wg.Go(b.run)
	}
	return b
}

// Close ends the background. On a machine that is full its threads of low priority may
// take minutes to end a step: they are not waited for. What they still make is dropped.
// The overlay is not touched afterwards.
func (b *Background) Close() error {
	b.cancel()
	b.tending.Wait()
	ended := make(chan struct{})
	go func() {
		b.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(b.patience):
		b.log.Info("the background is left behind in the middle of a sample")
	}
	return nil
}

// Stats is how far the preparation has come.
type Stats struct {
	View     string `json:"view"`     // being prepared; empty when idle
	Seen     int64  `json:"seen"`     // samples looked at
	Prepared int64  `json:"prepared"` // samples made
}

// Stats returns the counters.
func (b *Background) Stats() Stats {
	s := Stats{Seen: b.seen.Load(), Prepared: b.prepared.Load()}
	if view := b.view.Load(); view != nil {
		s.View = *view
	}
	return s
}

// use queues a view that is used for the first time.
func (b *Background) use(v transcode.Pipeline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.Stored() || len(b.known) >= maxViews {
		return
	}
	v = v.Whole() // names make no difference
	// All fidelities are one representation.
	name := v.String()
	if first := v.Steps()[0]; v.Len() == 1 && first.Kind.Split != nil {
		name = first.Kind.Name
	}
	if !b.known[name] {
		b.known[name] = true
		b.queue <- v
	}
}

func (b *Background) run() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case v := <-b.queue:
			name := v.String()
			b.view.Store(&name)
			started := time.Now()
			b.prepare(v)
			b.view.Store(nil)
			if b.ctx.Err() == nil {
				b.log.Info("view prepared", "view", name, "seconds", time.Since(started).Seconds())
			}
		}
	}
}

// prepare walks the tree in listing order, on as many workers as there are.
func (b *Background) prepare(v transcode.Pipeline) {
	paths := make(chan string, 64)
	var workers sync.WaitGroup
	throttle := newThrottle()
	for range b.workers {
		workers.Go(func() {
			lowPriority()
			for name := range paths {
				started := time.Now()
				b.sample(name, v)
				b.sleep(throttle.rest(time.Since(started)))
			}
		})
	}
	registry := b.server.Registry()
	b.walk("", func(name string) {
		if !registry.IsSample(name) {
			return
		}
		select {
		case paths <- name:
		case <-b.ctx.Done():
		}
	})
	close(paths)
	workers.Wait()
}

// countAll tells the cache's policy how many files there are.
func (b *Background) countAll() {
	lowPriority()
	files := 0
	b.walk("", func(string) { files++ })
	if b.ctx.Err() == nil {
		b.server.SetTotal(files)
	}
}

// walk calls f for each file below a directory, in listing order.
func (b *Background) walk(dir string, f func(name string)) {
	entries, err := b.server.List(dir)
	if err != nil {
		b.log.Warn("the background leaves a directory out", "path", dir, "cause", err)
		return
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case b.ctx.Err() != nil:
			return
		case e.Dir:
			b.walk(name, f)
		default:
			f(name)
		}
	}
}

// sleep waits, unless the background is to end.
func (b *Background) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-b.ctx.Done():
	case <-time.After(d):
	}
}

// giveWay waits while readers wait for the server.
func (b *Background) giveWay() {
	for b.server.Busy() && b.ctx.Err() == nil {
		b.sleep(2 * time.Millisecond)
	}
}

// current is [serve.Server.Current], which looks at a file, without being in a reader's way.
func (b *Background) current(path string, src store.Identity, key string) bool {
	b.giveWay()
	return b.server.Current(path, src, key)
}

// sample makes what is worth keeping of one sample. What goes wrong is left to
// the reader who will ask for it: it may never be asked for.
func (b *Background) sample(name string, v transcode.Pipeline) {
	if b.giveWay(); b.ctx.Err() != nil {
		return
	}
	b.seen.Add(1)
	attr, err := b.server.Stat(name, false)
	if err != nil {
		return
	}
	kept, err := b.server.Prepare(b.ctx, serve.File{Path: name, Identity: attr.Identity}, v)
	if kept {
		b.prepared.Add(1)
	}
	if err != nil && b.ctx.Err() == nil {
		b.log.Debug("sample left out of the preparation", "sample", name, "cause", err)
	}
}
