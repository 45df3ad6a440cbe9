package blob

import (
	"context"
	"sync"
	"time"
)

const (
	startRequests = 16  // in flight, at first
	maxRequests   = 256 // in flight, where the server bears them
)

// limiter says how many requests may be in flight: one more for each that goes well, at first;
// after the first sign of overload, two more for each round of them; and at each sign of overload,
// three quarters. Where a share p of the answers says 503 by chance, that settles at the root of 8/p.
type limiter struct {
	mu     sync.Mutex
	limit  float64
	cut    time.Time // when it was last lowered
	inUse  int
	queued []chan struct{}
}

func newLimiter() *limiter { return &limiter{limit: startRequests} }

// acquire waits for its turn.
func (l *limiter) acquire(ctx context.Context) error {
	l.mu.Lock()
	if l.inUse < int(l.limit) && len(l.queued) == 0 {
		l.inUse++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.queued = append(l.queued, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range l.queued {
		if q == turn {
			l.queued = append(l.queued[:i], l.queued[i+1:]...)
			return ctx.Err()
		}
	}
	l.inUse-- // its turn came just now
	l.next()
	return ctx.Err()
}

// release says how a request went. Those that were in flight together when the server had too much
// to do count once.
func (l *limiter) release(v verdict, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch full := l.inUse >= int(l.limit); {
	case v == overloaded && began.After(l.cut):
		l.limit = max(1, l.limit*3/4)
		l.cut = time.Now()
	case v == done && full && l.cut.IsZero():
		l.limit = min(maxRequests, l.limit+1)
	case v == done && full:
		l.limit = min(maxRequests, l.limit+2/l.limit)
	}
	l.inUse--
	l.next()
}

// next lets in whoever waits.
func (l *limiter) next() {
	for len(l.queued) > 0 && l.inUse < int(l.limit) {
		close(l.queued[0])
		l.queued = l.queued[1:]
		l.inUse++
	}
}

func (l *limiter) current() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit)
}

const (
	retriesAtOnce    = 50
	retriesPerSecond = 20
	retriesPerDone   = 0.2 // for each request that goes well
)

// budget keeps requests that are repeated few beside those that go well. Where it is used up,
// they wait: all readers together ask a server that is down retriesPerSecond times a second.
type budget struct {
	mu    sync.Mutex
	left  float64
	since time.Time
}

func newBudget() *budget { return &budget{left: retriesAtOnce, since: time.Now()} }

// earn is told of a request that went well.
func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(retriesAtOnce, b.left+retriesPerDone)
}

// take reserves one repetition, and says how long to wait for it.
func (b *budget) take() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(retriesAtOnce, b.left+retriesPerSecond*now.Sub(b.since).Seconds()) - 1
	b.since = now
	if b.left >= 0 {
		return 0
	}
	return time.Duration(-b.left / retriesPerSecond * float64(time.Second))
}

// Operations of a place, for messages and for tests.
const (
	OpGet    = "get"
	OpStat   = "stat"
	OpList   = "list"
	OpPut    = "put"
	OpDelete = "delete"
)
