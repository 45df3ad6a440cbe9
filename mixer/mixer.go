// Package mixer chooses, whenever a file is opened that is not in memory, the representation
// from which a view of a sample is made.
//
// A view is the end of a pipeline, and a [Candidate] is a representation that
// stands for a prefix of it: the file of the dataset itself, for the empty
// prefix, or something that a store keeps. Reading the longest prefix leaves the
// decoder idle, reading the shortest one spares the disk; a [Policy] decides.
package mixer

import "math"

// Candidate is a representation of one sample that a view can be made from.
type Candidate struct {
	// Steps is the number of the plan's steps that it stands for; what follows
	// has to be computed.
	Steps int
	// Bytes is its size: what has to be read.
	Bytes int64
	// Dataset: it is the file of the dataset, not of a store.
	Dataset bool
}

// Request is one read to decide on. Policies must not keep Candidates.
type Request struct {
	// Key of the view's file: the same for each read of it in a mount. Files that
	// are listed one after the other have successive keys.
	Key uint64
	// Steps is the number of steps of the whole plan.
	Steps int
	// Candidates, at least one, in no particular order.
	Candidates []Candidate
}

// Policy chooses. It is asked whenever a file is opened that is not in memory, so
// it must be quick, must not allocate, and must be safe for concurrent use.
type Policy interface {
	// Choose returns an index into r.Candidates.
	Choose(r Request) int
	// Takes reports whether the materialized file of a key is taken where there is a
	// choice. The answer for a key never changes.
	Takes(key uint64) bool
	// Share of the reads, from 0 to 1, that are to be of materialized files.
	Share() float64
}

// Longest takes the representation that leaves the fewest steps to compute, and
// of two such the smaller one. So the share of samples that are materialized is
// the mix.
type Longest struct{}

// Choose implements [Policy].
func (Longest) Choose(r Request) int {
	best, _ := r.best()
	return best
}

// Takes implements [Policy].
func (Longest) Takes(uint64) bool { return true }

// Share implements [Policy].
func (Longest) Share() float64 { return 1 }

// best returns the candidate that [Longest] takes, and the one it would take next,
// -1 where there is only one.
func (r *Request) best() (best, second int) {
	second = -1
	for i := 1; i < len(r.Candidates); i++ {
		switch {
		case r.Candidates[i].before(r.Candidates[best]):
			best, second = i, best
		case second < 0 || r.Candidates[i].before(r.Candidates[second]):
			second = i
		}
	}
	return best, second
}

// before reports whether c leaves less to compute than d, or is smaller.
func (c Candidate) before(d Candidate) bool {
	return c.Steps > d.Steps || c.Steps == d.Steps && c.Bytes < d.Bytes
}

// whole reports whether a candidate is the whole result.
func (r *Request) whole(i int) bool { return r.Candidates[i].Steps == r.Steps }

// Load is how busy the two sides of a mount were over a while, as shares of that
// time.
type Load struct {
	// Disk: at least one read of a store or dataset was under way.
	Disk float64
	// Compute: the workers that were making results, over those that there are.
	Compute float64
}

// Adaptive is a [Steady] that follows what the mount sees: as long as the workers
// are busier than the disk it shifts reads to what is materialized, and back when
// the disk is. Where the disk and the decoder are equally busy neither waits for
// the other, which is the balance that Liquid (section 4.1) looks for offline.
type Adaptive struct {
	Steady
	// Most is the largest share: how much is materialized.
	Most float64

	lean float64 // what the last observations had in common
}

// How an Adaptive moves. The numbers are for observations some 4 times a second:
// from one end to the other in three seconds, and no move for what noise does.
const (
	adaptGain     = 0.12 // share for each unit of imbalance
	adaptDeadband = 0.08 // imbalance that is none
	adaptMemory   = 0.5  // weight of what was before
	adaptIdle     = 0.05 // load below which nobody is reading
)

// NewAdaptive begins at share start.
func NewAdaptive(start, most float64) *Adaptive {
	a := &Adaptive{Most: min(max(most, 0), 1)}
	a.Set(min(start, a.Most))
	return a
}

// Observe takes in the load since the last observation and shifts the share. It is
// called by one goroutine.
func (a *Adaptive) Observe(l Load) {
	if l.Disk < adaptIdle && l.Compute < adaptIdle {
		a.lean = 0
		return
	}
	a.lean = adaptMemory*a.lean + (1-adaptMemory)*(min(l.Compute, 1)-min(l.Disk, 1))
	if math.Abs(a.lean) < adaptDeadband {
		return
	}
	a.Set(min(a.Share()+adaptGain*a.lean, a.Most))
}
