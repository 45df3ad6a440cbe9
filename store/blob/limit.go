package blob

import (
	"context"
	"io"
	"iter"
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

func (b *budget) refill() {
	now := time.Now()
	b.left = min(retriesAtOnce, b.left+retriesPerSecond*now.Sub(b.since).Seconds())
	b.since = now
}

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
	b.refill()
	b.left--
	if b.left >= 0 {
		return 0
	}
	return time.Duration(-b.left / retriesPerSecond * float64(time.Second))
}

// Operations of a place, for [Faults] and for messages.
const (
	OpGet    = "get"
	OpStat   = "stat"
	OpList   = "list"
	OpPut    = "put"
	OpDelete = "delete"
)

// Faults is a place that fails as it is told, for tests of those who use one. What is nil does
// nothing. To replace an object under a reader, let Before do it, in the place that is wrapped.
type Faults struct {
	Objects
	// Before is asked before an operation. An operation that it gives an error is not done.
	Before func(op, name string) error
	// After is asked after one that succeeded. Its error takes the place of the answer.
	After func(op, name string) error
	// Damage changes the bytes that a read from an offset on has got.
	Damage func(name string, off int64, b []byte)
}

var _ Objects = (*Faults)(nil)

func (f *Faults) do(op, name string, do func() error) error {
	if f.Before != nil {
		if err := f.Before(op, name); err != nil {
			return err
		}
	}
	if err := do(); err != nil || f.After == nil {
		return err
	}
	return f.After(op, name)
}

// Stat implements [Objects].
func (f *Faults) Stat(ctx context.Context, name string) (i Info, err error) {
	err = f.do(OpStat, name, func() (err error) {
		i, err = f.Objects.Stat(ctx, name)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return i, nil
}

// List implements [Objects]. Each page is an operation.
func (f *Faults) List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]Info, error] {
	return func(yield func([]Info, error) bool) {
		for page, err := range f.Objects.List(ctx, prefix, deep) {
			if err == nil {
				err = f.do(OpList, prefix, func() error { return nil })
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

// ReadAt implements [Objects].
func (f *Faults) ReadAt(ctx context.Context, name string, v Version, b []byte, off int64) error {
	return f.do(OpGet, name, func() error {
		err := f.Objects.ReadAt(ctx, name, v, b, off)
		if err == nil && f.Damage != nil {
			f.Damage(name, off, b)
		}
		return err
	})
}

// PutIfAbsent implements [Objects].
func (f *Faults) PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (v Version, err error) {
	err = f.do(OpPut, name, func() (err error) {
		v, err = f.Objects.PutIfAbsent(ctx, name, body, size)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// PutIfMatch implements [Objects].
func (f *Faults) PutIfMatch(ctx context.Context, name string, is Version, data []byte) (v Version, err error) {
	err = f.do(OpPut, name, func() (err error) {
		v, err = f.Objects.PutIfMatch(ctx, name, is, data)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// Delete implements [Objects].
func (f *Faults) Delete(ctx context.Context, name string) error {
	return f.do(OpDelete, name, func() error { return f.Objects.Delete(ctx, name) })
}
