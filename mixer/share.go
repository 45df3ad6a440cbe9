package mixer

import (
	"cmp"
	"math"
	"slices"
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

// Ranks decides which samples have a representation that is kept for a share of
// them only: a sample belongs to the share F, from 0 to 1, if its rank is below
// F. It returns the ranks, from 0 up to but not including 1, of the samples of
// one class (a directory), whose positions in packed order are seqs, none of them
// twice. class is the number of the class, from 0 on.
//
// What belongs to a share belongs to every larger one. Of a class of n samples
// more than F·n−1 and fewer than F·n+1 belong to F, and they lie evenly along the
// packed order, in a class and over all of them: any stretch of it that is read
// takes about the same mix. Of many classes of few samples, one even, about the
// share F of all samples belongs to F. The same arguments give the same ranks on
// every machine.
func Ranks(class int, seqs []int64) []float64 {
	// Positions times an irrational, of which the fraction remains, are spread
	// evenly, any stretch of them and any subset that is not made to defeat it,
	// and most evenly for the golden ratio. The samples are taken in that order.
	// It depends on the position alone, so that a sample which is removed or added
	// does not put all others into another one.
	order := make([]int, len(seqs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(uint64(seqs[a]+1)*golden, uint64(seqs[b]+1)*golden)
	})
	// Which of the n steps of a class comes when differs between classes, or all of
	// them would take their next sample at the same share.
	const bits = 24 // few enough that sums with n stay exact and below n
	offset := float64(uint64(class+1)*silver>>(64-bits)) / (1 << bits)
	ranks := make([]float64, len(seqs))
	for j, i := range order {
		ranks[i] = (float64(j) + offset) / float64(len(seqs))
	}
	return ranks
}

// Fractions of irrationals, of 2^64: those of the golden ratio and of the square
// root of 2, whose multiples have nothing to do with each other.
const (
	golden = 0x9e3779b97f4a7c15
	silver = 0x6a09e667f3bcc908
)

// Ratios is the number of mixes that are compared, from 0 (nothing is stored in
// full) to Ratios-1 (everything is): Liquid, section 4.1.
const Ratios = 11

// ShareOf is the share of ratio i, 0 to 1.
func ShareOf(i int) float64 { return float64(i) / (Ratios - 1) }

// Costs are the seconds that a sample takes, all readers or workers together.
type Costs struct {
	LoadRaw, LoadEncoded float64 // reading from disk
	Decode               float64 // of what is encoded
}

// Predict returns the samples a second of a mix: those of the slower of loading and
// decoding, which run at the same time.
func (c Costs) Predict(share float64) (load, decode float64) {
	load = 1 / (share*c.LoadRaw + (1-share)*c.LoadEncoded)
	if cost := (1 - share) * c.Decode; cost > 0 {
		return load, 1 / cost
	}
	return load, math.Inf(1)
}

// Sample is the predicted seconds that a sample of a mix takes.
func (c Costs) Sample(share float64) float64 { return 1 / min(c.Predict(share)) }

// Best is the ratio with the highest prediction, up to most.
func (c Costs) Best(most int) (best int) {
	top := 0.0
	for i := range most + 1 {
		if rate := min(c.Predict(ShareOf(i))); rate > top {
			best, top = i, rate
		}
	}
	return best
}

// Search looks for the ratio with the highest rate among 0 to most, beginning at
// start. measure runs several ratios side by side, again those that it has run
// before, and returns what it knows by then of the rate of each, in samples a
// second. It is asked for the start, its neighbours and both ends, then for the
// neighbours of whatever is best, until the best has none that is not known; and
// once more for the best and its neighbours, which are close to each other.
//
// It goes by what was measured of loading and decoding together. A search by which
// of the two is slower only brackets where they cross, and ends beside the optimum
// as often as not. A ratio is judged with its neighbours: the curve has no spikes,
// the measurements have.
func Search(start, most int, measure func(ratios []int) ([]float64, error)) (best int, rates map[int]float64, err error) {
	rates = map[int]float64{}
	ask := func(ratios ...int) error {
		var wanted []int
		for _, i := range ratios {
			if i >= 0 && i <= most && !slices.Contains(wanted, i) {
				wanted = append(wanted, i)
			}
		}
		got, err := measure(wanted)
		if err != nil {
			return err
		}
		for n, i := range wanted {
			rates[i] = got[n]
		}
		best = smoothest(rates, most)
		return nil
	}
	known := func(i int) bool {
		_, ok := rates[i]
		return ok || i < 0 || i > most
	}
	if err := ask(start, start-1, start+1, 0, most); err != nil {
		return best, rates, err
	}
	for !known(best-1) || !known(best+1) {
		var next []int
		for _, i := range []int{best - 1, best + 1} {
			if !known(i) {
				next = append(next, i)
			}
		}
		if err := ask(next...); err != nil {
			return best, rates, err
		}
	}
	return best, rates, ask(best-1, best, best+1)
}

// smoothest is the best of the ratios that are known, each judged with its
// neighbours, as far as those are known.
func smoothest(rates map[int]float64, most int) (best int) {
	top := math.Inf(-1)
	for i := range most + 1 {
		rate, ok := rates[i]
		if !ok {
			continue
		}
		sum, weight := 2*rate, 2.0
		below, some := rates[i-1]
		above, more := rates[i+1]
		// With one neighbour alone a slope would count against the higher end.
		if some && more {
			sum, weight = sum+below+above, 4
		}
		if sum/weight > top {
			best, top = i, sum/weight
		}
	}
	return best
}
