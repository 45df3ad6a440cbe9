package mixer

import (
	"math"
	"sync"
	"sync/atomic"
)

// Fixed takes what is materialized for a share of the samples that have it, and
// always for the same ones: where the kernel keeps pages, a choice that changed
// would only have the disk read both.
type Fixed float64 // 0 to 1

// Choose implements [Policy].
func (f Fixed) Choose(r Request) int {
	best, second := r.best()
	if second >= 0 && r.whole(best) && !f.Takes(r.Key) {
		return second
	}
	return best
}

// Takes implements [Policy].
func (f Fixed) Takes(key uint64) bool { return evenly(key) < float64(f) }

// Share implements [Policy].
func (f Fixed) Share() float64 { return float64(f) }

// evenly maps keys to [0, 1) so that successive ones are spread evenly: multiples
// of an irrational, of which the fraction remains. It must not be one of those by
// which [Ranks] decides what is materialized, or all of that would come to lie
// side by side.
func evenly(key uint64) float64 {
	const bronze = 0xbb67ae8584caa73b // the fraction of the square root of 3, of 2^64
	return float64(key*bronze>>11) / (1 << 53)
}

// Steady takes what is materialized for a constant share of the reads, in whatever
// order they come: Liquid's batches have the same mix (section 4.2). Samples that
// are stored in one form only count as well; what they lack is made up for by those
// that have both, if the store has more materialized than the share.
type Steady struct {
	share atomic.Uint64 // bits of a float64

	mu   sync.Mutex
	owed float64 // reads that should have been of materialized files by now and were not
}

// maxOwed bounds what has to be made up for: many samples without a choice must not
// be followed by as many of the other kind.
const maxOwed = 4

// NewSteady returns a policy with a share of 0 to 1.
func NewSteady(share float64) *Steady {
	s := &Steady{}
	s.Set(share)
	return s
}

// Set changes the share from the next read on.
func (s *Steady) Set(share float64) { s.share.Store(math.Float64bits(min(max(share, 0), 1))) }

// Takes implements [Policy]: no file is decided on once and for all.
func (s *Steady) Takes(uint64) bool { return true }

// Share implements [Policy].
func (s *Steady) Share() float64 { return math.Float64frombits(s.share.Load()) }

// Choose implements [Policy].
func (s *Steady) Choose(r Request) int {
	best, second := r.best()
	share := s.Share()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed = min(s.owed+share, maxOwed)
	switch {
	case !r.whole(best):
		return best
	case second >= 0 && s.owed < 0.5:
		return second
	}
	s.owed = max(s.owed-1, -maxOwed)
	return best
}
