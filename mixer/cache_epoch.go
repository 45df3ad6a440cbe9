package mixer

import (
	"fmt"
	"math"
	"slices"
)

// epochs infers from the opens alone where an epoch ends.
//
// An epoch ends when all of the population was opened: in the first one as many
// samples as the caller says there are, later what the epochs before it read. The
// first epoch of a job that reads only a part of the dataset, and those of a loader
// that drops its last batch, end otherwise: when a run of opens finds nothing but
// samples that were opened long ago in this very epoch, in an order that looks like
// the beginning of another one.
type epochs struct {
	seen   seen
	total  int // samples there are at most; 0: unknown
	number int // of this epoch, from 1

	now     uint32 // opens in this epoch
	members int    // samples of the population; 0 in the first epoch
	sampled int    // of these, opened in this epoch; in the first one, all that were

	bytes int64   // of those that are sampled
	mean  float64 // their mean size, bytes; while nothing is sampled, that before

	// early are the last opens of samples that had been opened in this epoch. When it
	// ends they belong to the next one: readers do not turn all at once.
	early ring[open]
	// run are the places in the epoch, from 0 to 1, of what is opened for the second
	// time while little is opened for the first time; it began at from.
	run     [runLen]float32
	running int
	from    uint32

	bad int    // epochs in a row that ended with much of the population unread
	off string // why nothing is inferred any more
}

// open is one open of a sample.
type open struct {
	key  uint64
	cost int64
	at   uint32
}

// event is what an open turns out to be.
type event uint8

const (
	// first: the sample is opened for the first time in this epoch.
	first event = iota
	// again: it has been opened in this epoch.
	again
	// stranger: it does not belong to the population.
	stranger
)

const (
	// runLen is the number of opens that show that another epoch has begun; fewer
	// where few samples are.
	runLen = 64
	// earlyLen bounds how many opens of the next epoch are remembered. Eight ranks
	// that fetch 128 samples ahead are as many.
	earlyLen = 1024
	// badEpochs in a row turn inference off.
	badEpochs = 3
)

func newEpochs() epochs {
	return epochs{seen: newSeen(), number: 1, early: ring[open]{most: earlyLen}}
}

// population is the number of samples of an epoch, as far as it is known.
func (e *epochs) population() int {
	if e.number == 1 {
		return e.total
	}
	return e.members
}

// totalBytes is about what an epoch reads; 0 where nobody knows.
func (e *epochs) totalBytes() float64 {
	n := e.population()
	if n == 0 {
		return 0
	}
	return float64(e.bytes) + e.mean*float64(max(0, n-e.sampled))
}

// complete reports whether the population was opened. Some of it may be missing: a
// sample that opened the epoch before anybody knew that it had begun.
func (e *epochs) complete() bool {
	n := e.population()
	return n > 0 && e.sampled >= n-n/64
}

// open takes note of an open. Where over is true an epoch has ended before it, and
// the caller has to call turn before anything else, and this again.
func (e *epochs) open(key uint64, cost int64) (what event, over bool) {
	if e.now == math.MaxUint32 {
		return first, true
	}
	page, i := e.seen.page(key)
	stamp := page.stamp[i]
	if stamp == 0 {
		e.now++
		page.stamp[i] = e.now
		e.running -= (e.running + 3) / 4
		if e.number > 1 && page.flags[i]&isMember == 0 {
			return stranger, false
		}
		e.sample(cost)
		return first, false
	}
	ago := e.now - stamp
	// A file that is opened twice is so at once, as far as other workers let it.
	if ago < uint32(min(256, max(8, e.sampled/16))) {
		return again, false
	}
	// The last sample may be opened twice too, and strangers after the last sample
	// may be the epoch's validation: it ends when the next one begins.
	if e.complete() || e.wraps(stamp, ago) {
		return first, true
	}
	e.now++
	page.stamp[i] = e.now
	e.early.push(open{key, cost, e.now})
	return again, false
}

func (e *epochs) sample(cost int64) {
	e.sampled++
	e.bytes += cost
	e.mean = float64(e.bytes) / float64(e.sampled)
}

// wraps reports whether the sample, opened ago opens ago, completes a run of opens
// that another epoch begins with. Those that are not so long ago say nothing: some
// reader may go over a few samples time and again.
func (e *epochs) wraps(stamp, ago uint32) bool {
	if ago < e.now/4 {
		return false
	}
	if e.running == 0 {
		e.from = e.now
	}
	e.run[e.running] = float32(stamp) / float32(e.now)
	e.running++
	n := min(runLen, max(8, e.sampled/4))
	if e.running < n {
		return false
	}
	at := e.run[:n]
	slices.Sort(at)
	// Either the run is from the epoch's beginning, in about its order, or it is from
	// all over the epoch. Otherwise somebody looks at a part of it once more.
	if at[n-1] < 0.25 || at[3*n/4]-at[n/4] > 0.2 {
		return true
	}
	e.running = 0
	return false
}

// turn begins the next epoch, and calls sampled for each open that it has begun
// with.
func (e *epochs) turn(sampled func(key uint64, cost int64)) {
	if e.number > 1 && 4*(e.members-e.sampled) > e.members {
		if e.bad++; e.bad == badEpochs {
			e.off = fmt.Sprintf("epochs cannot be told apart: of %d samples only %d were read before others were read again", e.members, e.sampled)
			return
		}
	} else {
		e.bad = 0
	}
	// What was opened again before that is no beginning.
	from := e.now - min(e.now, max(2*runLen, e.now/8))
	if e.running > 0 {
		from = min(from, e.from)
	}
	// Where most of the population was not asked for, a job has gone on to other
	// samples.
	e.members = e.seen.turn(e.number == 1, 2*e.sampled < e.members)
	e.number++
	e.now, e.sampled, e.bytes, e.running = 0, 0, 0, 0
	for o := range e.early.all {
		if o.at <= from {
			continue
		}
		page, i := e.seen.page(o.key)
		if page.stamp[i] != 0 {
			continue
		}
		e.now++
		page.stamp[i] = e.now
		if page.flags[i]&isMember != 0 {
			e.sample(o.cost)
			sampled(o.key, o.cost)
		}
	}
	e.early.clear()
}

// ring holds the last elements, at most so many.
type ring[T any] struct {
	most  int
	items []T
	next  int // the oldest, once it is full
}

func (r *ring[T]) push(v T) {
	if len(r.items) < r.most {
		r.items = append(r.items, v)
		return
	}
	r.items[r.next] = v
	r.next = (r.next + 1) % r.most
}

// all yields the elements, the oldest first.
func (r *ring[T]) all(yield func(T) bool) {
	for i := range r.items {
		if !yield(r.items[(r.next+i)%len(r.items)]) {
			return
		}
	}
}

func (r *ring[T]) clear() { r.items, r.next = r.items[:0], 0 }
