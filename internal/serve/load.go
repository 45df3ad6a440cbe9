package serve

import (
	"context"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pipefs/pipefs/mixer"
)

// observeEvery is how often the load is told.
const observeEvery = 250 * time.Millisecond

// gauge measures how many are at something over time.
type gauge struct {
	mu    sync.Mutex
	now   int
	since time.Time
	taken time.Time     // when take was called before
	any   time.Duration // at least one was
	all   time.Duration // of all of them together
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	g.account()
	g.now += n
	g.mu.Unlock()
}

// account accounts for the time since the last change, with mu held.
func (g *gauge) account() {
	t := time.Now()
	if g.now > 0 {
		d := t.Sub(g.since)
		g.any += d
		g.all += time.Duration(g.now) * d
	}
	g.since = t
}

// take returns what was measured since it was called before, as shares of that time.
func (g *gauge) take() (any, all float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account()
	passed := max(g.since.Sub(g.taken), 1).Seconds()
	any, all = g.any.Seconds()/passed, g.all.Seconds()/passed
	g.any, g.all, g.taken = 0, 0, g.since
	return any, all
}

// meter measures the load: how busy the disk and the workers are.
type meter struct {
	disk, compute gauge
	done          chan struct{}
	ended         sync.WaitGroup
}

// follow tells observe the load until the meter is closed.
func (m *meter) follow(observe func(mixer.Load), workers int) {
	m.done = make(chan struct{})
	m.ended.Go(func() {
		ticker := time.NewTicker(observeEvery)
		defer ticker.Stop()
		m.disk.take() // what was before does not count
		m.compute.take()
		for {
			select {
			case <-m.done:
				return
			case <-ticker.C:
			}
			reading, _ := m.disk.take()
			_, computing := m.compute.take()
			observe(mixer.Load{Disk: reading, Compute: computing / float64(workers)})
		}
	})
}

func (m *meter) close() {
	if m == nil {
		return
	}
	close(m.done)
	m.ended.Wait()
}

// computing marks the beginning of a computation; what it returns marks the end.
func (m *meter) computing() func() {
	if m == nil {
		return func() {}
	}
	m.compute.add(1)
	return func() { m.compute.add(-1) }
}

// metered returns r, its reads measured.
func (m *meter) metered(r sized) sized {
	if m == nil {
		return r
	}
	return meteredReader{r, &m.disk}
}

type meteredReader struct {
	sized
	gauge *gauge
}

func (r meteredReader) ReadAt(b []byte, off int64) (int, error) {
	r.gauge.add(1)
	defer r.gauge.add(-1)
	return r.sized.ReadAt(b, off)
}

var _ io.ReaderAt = meteredReader{}

// limiter bounds how many results are made at once: a place for each, and the memory for
// their sources and pixels.
type limiter struct {
	places *semaphore.Weighted
	memory *semaphore.Weighted
	bytes  int64 // of memory
	// compute is the limiter of which computing takes a place as well; nil where it does not.
	compute *limiter
}

func newLimiter(places int, bytes int64) *limiter {
	return &limiter{places: semaphore.NewWeighted(int64(places)), memory: semaphore.NewWeighted(bytes), bytes: bytes}
}

// join waits for a place; leave gives it back. The place comes before the memory, always
// in this order.
func (c *limiter) join(ctx context.Context) error { return c.places.Acquire(ctx, 1) }
func (c *limiter) leave()                         { c.places.Release(1) }

// take waits for size bytes of memory, and returns how many give has to give back:
// what is larger than all of it takes all of it, and is alone.
func (c *limiter) take(ctx context.Context, size int64) (taken int64, err error) {
	taken = min(size, c.bytes)
	return taken, c.memory.Acquire(ctx, taken)
}

func (c *limiter) give(taken int64) { c.memory.Release(taken) }

// Loading is how many samples are loaded and computed at once by so many workers, where they
// are many and are known ahead of time: while some are computed, others are read.
func Loading(workers int) int { return 2*workers + 2 }
