package epoch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// maker makes batches, all workers one batch after the other: those that a reader waits
// for first, then those that come soonest.
type maker struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
	stats  counters

	mu      sync.Mutex
	batches map[batchKey]*batch
	queue   []*batch // with samples that nobody has begun, the oldest first
	working int
	held    int64    // bytes of batches and of unused
	unused  [][]byte // memory of batches that were dropped
	tick    uint64
	rest    *time.Timer // gives all memory back when nobody reads any more
	unshort func()
}

type batchKey struct {
	view  *View
	index int
}

// batch is the file of the pixels of a batch.
type batch struct {
	batchKey
	of     *maker
	n      int   // samples
	size   int64 // bytes
	done   chan struct{}
	wanted bool // a reader waits, or did
	early  bool // it was made before a reader came

	turns []int  // places in the batch, in the order in which their samples are made
	data  []byte // nil until there is memory for it, and where it could not be made
	begun int    // samples
	left  int    // samples that are not finished
	err   error  // why it could not be made
	ended time.Time
	// spent is where the time of its samples went, and started when the first one was begun.
	spent   account.Spent
	started time.Time

	distance int    // from the reader for whom it is made ahead
	used     uint64 // tick of the last use
	pins     int    // readers
	read     atomic.Int64
}

const (
	// again is how long a batch that could not be made is not tried again.
	again = time.Second
	// stale is how long a batch that nobody has read keeps its memory from others that are
	// made ahead, and how long batches stay when nobody reads any.
	stale = time.Minute
)

func newMaker(o Options) *maker {
	m := &maker{o: o, batches: map[batchKey]*batch{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.rest = time.AfterFunc(stale, m.giveBack)
	m.unshort = cgroup.Work().OnShort(func() int64 { m.giveBack(); return 0 })
	return m
}

func (m *maker) close() {
	m.unshort()
	m.mu.Lock()
	m.rest.Stop()
	m.cancel() // nobody begins anything after that
	m.mu.Unlock()
	m.ended.Wait()
}

// open returns a batch, made and pinned, and has those made that come next.
func (m *maker) open(ctx context.Context, key batchKey) (*batch, error) {
	m.mu.Lock()
	b := m.batch(key)
	if !b.wanted {
		b.wanted = true
		if b.early {
			m.stats.used.Add(1)
		}
		m.prepare(key)
	}
	b.pins++
	m.tick++
	b.used = m.tick
	m.rest.Reset(stale)
	m.hire()
	complete, asked, waits := b.complete(), time.Now(), account.Worker
	if b.data == nil && m.working < serve.Loading(m.o.Workers) {
		waits = account.Memory
	}
	m.mu.Unlock()
	select {
	case <-b.done:
		if !complete {
			b.waited(account.From(ctx), asked, waits)
		}
	case <-ctx.Done():
		b.release()
		return nil, ctx.Err()
	case <-m.ctx.Done():
		return nil, m.ctx.Err()
	}
	if b.err != nil {
		b.release()
		return nil, b.err
	}
	return b, nil
}

// waited notes what a reader has waited for who asked before the batch was made: for a worker or for
// memory, and then for what its samples took.
func (b *batch) waited(spent *account.Spent, asked time.Time, waits account.Part) {
	if spent == nil {
		return
	}
	now := time.Now()
	if b.started.After(asked) {
		spent.Parts[waits] += b.started.Sub(asked)
		asked = b.started
	}
	spent.Share(&b.spent, now.Sub(asked))
}

// batch returns a batch that is made, or will be. The caller holds mu.
func (m *maker) batch(key batchKey) *batch {
	if b := m.batches[key]; b != nil && !b.failed(again) {
		return b
	}
	maps.DeleteFunc(m.batches, func(_ batchKey, b *batch) bool { return b.failed(again) })
	w := key.view
	n := w.share.size(key.index)
	b := &batch{batchKey: key, of: m, n: n, left: n, turns: w.turns(key.index), size: w.bytes(n), done: make(chan struct{})}
	m.batches[key] = b
	m.queue = append(m.queue, b)
	return b
}

// complete reports whether a batch is made, or could not be.
func (b *batch) complete() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// finished reports whether somebody has read a batch to its end.
func (b *batch) finished() bool {
	size := b.size
	if !b.view.masksRead.Load() {
		size = b.view.pixelBytes(b.n)
	}
	return b.read.Load() >= size
}

// failed reports whether a batch could not be made, so long ago.
func (b *batch) failed(ago time.Duration) bool {
	return b.complete() && b.err != nil && time.Since(b.ended) >= ago
}

// release takes back a pin of open.
func (b *batch) release() {
	m := b.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.pins--; b.pins == 0 {
		m.discard(b)
		m.hire() // it may free memory for those that wait for some
	}
}

// hire starts workers as long as there is work. The caller holds mu.
func (m *maker) hire() {
	for m.working < serve.Loading(m.o.Workers) && m.ctx.Err() == nil && m.next() != nil {
		m.working++
		m.ended.Go(m.work)
	}
}

// next is the batch of which a sample should be begun, which has got memory; nil where there
// is none. The caller holds mu.
func (m *maker) next() *batch {
	order := slices.Clone(m.queue)
	slices.SortStableFunc(order, func(a, b *batch) int { return cmp.Compare(a.away(), b.away()) })
	for i, b := range order {
		// Nothing takes the memory that the first one waits for.
		if b.data != nil || i == 0 && m.allocate(b) {
			return b
		}
	}
	return nil
}

// away is how many batches a reader still has to read before this one.
func (b *batch) away() int {
	if b.wanted {
		return 0
	}
	return b.distance
}

// work makes samples until there is nothing to do.
func (m *maker) work() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.ctx.Err() == nil {
		b := m.next()
		if b == nil {
			break
		}
		i := b.turns[b.begun]
		if b.begun == 0 {
			b.started = time.Now()
		}
		b.begun++
		if b.begun == b.n {
			m.unqueue(b)
		}
		m.mu.Unlock()
		var spent account.Spent
		err := b.make(account.With(m.ctx, &spent), i)
		m.mu.Lock()
		b.spent.Add(&spent)
		m.finish(b, err)
	}
	m.working--
}

// finish notes that a sample is made, or cannot be.
func (m *maker) finish(b *batch, err error) {
	b.left--
	if err != nil && b.err == nil {
		b.err = err
		b.left -= b.n - b.begun // nobody needs the others
		b.begun = b.n
		m.unqueue(b)
	}
	if b.left > 0 {
		return
	}
	if b.err != nil {
		m.empty(b)
		m.stats.failed.Add(1)
	} else {
		m.stats.made.Add(1)
		if b.early = !b.wanted; b.early {
			m.stats.early.Add(1)
		}
		b.view.settleLocked(b.index)
	}
	b.ended = time.Now()
	close(b.done)
	m.discard(b)
}

// discard forgets a batch of samples that somebody asked for, and that nobody will read. One that is being made
// is forgotten when it is made. The caller holds mu.
func (m *maker) discard(b *batch) {
	if !b.view.dropped || b.pins > 0 || b.begun > 0 && !b.complete() {
		return
	}
	m.unqueue(b)
	if m.batches[b.batchKey] == b {
		delete(m.batches, b.batchKey)
	}
	if b.data != nil {
		m.empty(b)
	}
}

func (m *maker) unqueue(b *batch) {
	if i := slices.Index(m.queue, b); i >= 0 {
		m.queue = slices.Delete(m.queue, i, i+1)
	}
}

// turns are the places of a batch in the order of the list, in which their samples lie on the disk.
func (w *View) turns(k int) []int {
	places := make([]int, w.share.size(k))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(i, j int) int { return w.sample(k, i) - w.sample(k, j) })
	return places
}

// place is where the values of a sample belong in an array that begins at some place in the batch. The
// first one writes the header.
func (b *batch) place(begin int64, i int, of *transcode.Array) []byte {
	if i == 0 {
		copy(b.data[begin:], header(of, b.n))
	}
	return b.data[begin+headerSize+int64(i)*of.Bytes():][:of.Bytes()]
}

// make makes a sample where it belongs in the batch. What cannot be made is an error, black, or
// another sample.
func (b *batch) make(ctx context.Context, i int) (err error) {
	w := b.view
	place, mask := b.place(0, i, &w.array), []byte(nil)
	if w.masked {
		mask = b.place(w.pixelBytes(b.n), i, &w.mask)
	}
	sample := w.sample(b.index, i)
	err = w.makeBoth(ctx, sample, place, mask)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case w.asked:
		return w.blame(sample, err)
	}
	instead, err := w.excuse(sample, err, func(j int) error { return w.makeBoth(ctx, j, place, mask) })
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("batch %d: %w", b.index, w.blame(sample, err))
	case instead == black:
		clear(place)
		clear(mask)
		b.of.stats.black.Add(1)
	default:
		b.of.stats.replaced.Add(1)
	}
	w.note(b.index, i, instead)
	return nil
}

// allocate gives a batch its memory, if need be that of others; it reports whether there is
// some. The caller holds mu.
func (m *maker) allocate(b *batch) bool {
	if data := m.reuse(b.size); data != nil {
		b.data = data
		return true
	}
	for m.held+b.size > m.o.Budget {
		if len(m.unused) > 0 {
			m.held -= int64(cap(m.unused[0]))
			m.unused = m.unused[1:]
		} else if victim := m.victim(b.wanted); victim == nil {
			return false
		} else {
			delete(m.batches, victim.batchKey)
			m.empty(victim)
			if data := m.reuse(b.size); data != nil {
				b.data = data
				return true
			}
		}
	}
	b.data = make([]byte, b.size)
	m.held += b.size
	return true
}

// reuse takes the memory of a batch of the same size that was dropped: touching new memory
// costs about as much as filling it.
func (m *maker) reuse(size int64) []byte {
	for i, data := range m.unused {
		if int64(cap(data)) >= size && int64(cap(data)) < size+size/4 {
			m.unused = append(m.unused[:i:i], m.unused[i+1:]...)
			return data[:size]
		}
	}
	return nil
}

// victim is the batch to be dropped for another one: of those that were read to the end
// the one that was used longest ago, and if there is none, for one that a reader waits for
// any, or else one that nobody came for.
func (m *maker) victim(wanted bool) (found *batch) {
	better := func(a, b *batch) bool {
		if x, y := a.finished(), b.finished(); x != y {
			return x
		}
		return a.used < b.used
	}
	for _, b := range m.batches {
		if b.data == nil || b.pins > 0 || !b.complete() || b.kept() {
			continue
		}
		if (wanted || b.finished() || time.Since(b.ended) > stale) && (found == nil || better(b, found)) {
			found = b
		}
	}
	return found
}

// empty takes the memory of a batch. The caller holds mu.
func (m *maker) empty(b *batch) {
	if b.early && !b.wanted {
		m.stats.wasted.Add(1)
	}
	m.unused = append(m.unused, b.data)
	b.data = nil
}

// giveBack gives all memory back that nobody uses.
func (m *maker) giveBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, b := range m.batches {
		if b.data != nil && b.pins == 0 && b.complete() {
			delete(m.batches, key)
			m.empty(b)
		}
	}
	for _, data := range m.unused {
		m.held -= int64(cap(data))
	}
	m.unused = nil
	m.hire() // somebody may wait for memory
	if m.held > 0 && m.ctx.Err() == nil {
		m.rest.Reset(stale) // for what is made or read at the moment
	}
}
