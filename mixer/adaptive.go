package mixer

import "math"

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
