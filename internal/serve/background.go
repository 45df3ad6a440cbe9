package serve

import (
	"context"
	"errors"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// background prepares the views that were touched: it makes ahead of time what
// is worth keeping, when nobody is waiting for anything else.
type background struct {
	p      *Server
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	known   map[string]bool
	queue   chan transcode.Pipeline
	enabled bool

	waiting  atomic.Int64 // readers that wait for something to be opened
	prepared atomic.Int64
	seen     atomic.Int64
	view     atomic.Pointer[string] // being prepared
	retry    time.Duration          // how long to wait for room in the overlay
	patience time.Duration          // how long close waits
}

// maxBackgroundViews bounds the views that are remembered as touched.
const maxBackgroundViews = 256

func newBackground(p *Server) *background {
	b := &background{p: p, known: map[string]bool{}, queue: make(chan transcode.Pipeline, maxBackgroundViews), retry: 30 * time.Second, patience: 5 * time.Second}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Prepare lets the views that are touched be prepared in the background, into
// the overlay. Without it nothing is made before it is asked for.
func (p *Server) Prepare() {
	b := p.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.enabled || p.o.Overlay == nil || b.ctx.Err() != nil {
		return
	}
	b.enabled = true
	b.wg.Add(1)
	go b.run()
}

func (b *background) touched(v transcode.Pipeline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.enabled || v.Len() == 0 || v.Stored() || len(b.known) >= maxBackgroundViews {
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

func (b *background) pause()  { b.waiting.Add(1) }
func (b *background) resume() { b.waiting.Add(-1) }

// close ends the background. On a machine that is full its threads of low priority may
// take minutes to end a step: they are not waited for. What they still make is dropped.
func (b *background) close() {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		b.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(b.patience):
		b.p.log.Info("the background is left behind in the middle of a sample")
	}
}

func (b *background) run() {
	defer b.wg.Done()
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
				b.p.log.Info("view prepared", "view", name, "seconds", time.Since(started).Seconds())
			}
		}
	}
}

// prepare walks the tree in listing order, on as many workers as there are.
func (b *background) prepare(v transcode.Pipeline) {
	paths := make(chan string, 64)
	var workers sync.WaitGroup
	others := newCourtesy()
	for range b.p.o.Workers {
		workers.Go(func() {
			// The thread ends with the goroutine, and its low priority with it.
			runtime.LockOSThread()
			lowPriority()
			for name := range paths {
				started := time.Now()
				b.sample(name, v)
				b.sleep(others.rest(time.Since(started)))
			}
		})
	}
	b.walk("", paths)
	close(paths)
	workers.Wait()
}

func (b *background) walk(dir string, paths chan<- string) {
	entries, err := b.p.List(dir)
	if err != nil {
		b.p.log.Warn("directory left out of the preparation", "path", dir, "cause", err)
		return
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case b.ctx.Err() != nil:
			return
		case e.Dir:
			b.walk(name, paths)
		case b.p.o.Registry.IsSample(name):
			select {
			case paths <- name:
			case <-b.ctx.Done():
			}
		}
	}
}

// sleep waits, unless the background is to end.
func (b *background) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-b.ctx.Done():
	case <-time.After(d):
	}
}

// sample makes what is worth keeping of one sample. What goes wrong is left to
// the reader who will ask for it: it may never be asked for.
func (b *background) sample(name string, v transcode.Pipeline) {
	for b.waiting.Load() > 0 && b.ctx.Err() == nil {
		b.sleep(2 * time.Millisecond)
	}
	if b.ctx.Err() != nil {
		return
	}
	b.seen.Add(1)
	attr, err := b.p.Stat(name)
	if err != nil {
		return
	}
	j, err := b.p.job(File{Path: name, Identity: attr.Identity}, v)
	if err != nil || j.plan.Unchanged() || !b.p.keeps(j.plan) {
		return
	}
	if _, ok := j.storedSize(); ok {
		return
	}
	if from := j.request.Candidates[longest(j)]; j.work()+from.Bytes > b.p.idlers.bytes {
		return // too large to be made beside the readers' work
	}
	made, err := b.p.produce(b.ctx, b.p.idlers, j, longest(j))
	if err == nil {
		if b.ctx.Err() == nil {
			b.keep(j, made)
		}
		// Its memory belongs to the readers.
		b.p.forget(made)
		made.release()
	} else if !isFault(err) && !errors.Is(err, context.Canceled) {
		b.p.log.Debug("sample left out of the preparation", "sample", name, "cause", err)
	}
}

// keep puts a result into the overlay, where need be once there is room.
func (b *background) keep(j *job, made *product) {
	err := b.p.keep(j, made.split)
	for errors.Is(err, store.ErrFull) && b.ctx.Err() == nil {
		b.sleep(b.retry)
		err = b.p.keep(j, made.split)
	}
	if err == nil {
		b.prepared.Add(1)
	}
}
