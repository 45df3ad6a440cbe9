package views

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Turns is what was measured of one subject: one epoch in each round. The subjects that
// it is compared with were measured in the same rounds.
type Turns struct {
	Rates   []float64 // samples/s, one a round, in which starting may be left out
	Seconds []float64 // of wall time that the epochs took
	Samples int       // of an epoch
	CPU     float64   // seconds of processor time that a sample took; 0 if unknown
	// Busy is the share of the processors that was in use meanwhile, 0 to 1. Others is
	// the share that other processes used; 0 if unknown.
	Busy, Others float64
}

// What a conclusion needs.
const (
	minRounds    = 3 // fewer do not show how much rounds differ
	leastSamples = 200
	leastSeconds = 0.5
	ample        = 10 // seconds, after which fewer samples will do
	// widest is the largest ratio of the upper end of an interval to its lower end.
	widest = 1.75
	// Others may use OthersShare of the processors, or more if at least half of them are
	// idle.
	idleShare = 0.5
	// unexplained is the factor by which a ratio of rates may differ from the ratio of
	// processor time where processors are the limit. Up to 1/InUse of it may be idle
	// time.
	unexplained = 1.25
)

// OthersShare is the share of the processors that other processes may use.
const OthersShare = 0.1

// InUse is the share of the processors from which on they limit a rate.
const InUse = 0.85

// Doubt says why the rates do not show whether a is faster than base, or is empty.
// Reasons are: other processes used the processors; too little was measured; rates and
// processor time contradict each other; the interval of the gain is too wide.
func Doubt(a, base Turns) string {
	for _, why := range []string{crowded(a, base), few(a), few(base), contradiction(a, base), wideGain(Paired(a.Rates, base.Rates))} {
		if why != "" {
			return why
		}
	}
	return ""
}

// DoubtAlone says why the rates of a are not certain, where there is nothing to compare
// them with, or is empty.
func DoubtAlone(a Turns) string {
	for _, why := range []string{crowded(a), few(a), wide("rate", Bootstrap(a.Rates), widest, " samples/s")} {
		if why != "" {
			return why
		}
	}
	return ""
}

// Worth is how much faster than the base something has to be to be worth a change.
const Worth = 1.05

// Worthwhile reports whether a gain is surely, and by enough, worth a change.
func Worthwhile(gain Interval) bool { return gain.Median >= Worth && gain.Low >= 1 }

// MayGain reports whether a may be worth a change from base, for all that is known. Too
// few rounds exclude nothing.
func MayGain(a, base Turns) bool {
	return min(len(a.Rates), len(base.Rates)) < minRounds || Paired(a.Rates, base.Rates).High >= Worth
}

// Verdict chooses among subjects that were measured in the same rounds: the fastest, or
// base if surely nothing is worth a change from it. Without a base, which is -1 then, it
// is the fastest. Where the figures do not show that, it says why.
func Verdict(all []Turns, base int) (winner int, why string) {
	for i := range all {
		if Median(all[i].Rates) > Median(all[winner].Rates) {
			winner = i
		}
	}
	switch {
	case base < 0:
		return winner, DoubtAlone(all[winner])
	case winner != base:
		if why = Doubt(all[winner], all[base]); why != "" || Worthwhile(Paired(all[winner].Rates, all[base].Rates)) {
			return winner, why
		}
	}
	for i := range all { // of all others it has to be known
		if i != base && MayGain(all[i], all[base]) {
			if why = Doubt(all[i], all[base]); why != "" {
				break
			}
		}
	}
	return base, why
}

// crowded: other processes used the processors.
func crowded(all ...Turns) string {
	most := 0.0
	for _, t := range all {
		if 1-t.Busy < idleShare {
			most = max(most, t.Others)
		}
	}
	if most <= OthersShare {
		return ""
	}
	return fmt.Sprintf("other processes used %.0f %% of the processors", 100*most)
}

// Enough is how many rounds a conclusion needs, of epochs of so many samples and seconds,
// and a fifth more.
func Enough(samples int, seconds float64) int {
	const margin = 1.2
	if samples <= 0 || seconds <= 0 {
		return minRounds
	}
	rounds := max(leastSeconds/seconds, min(leastSamples/float64(samples), ample/seconds))
	return max(minRounds, int(math.Ceil(margin*rounds)))
}

// few: too little was measured.
func few(t Turns) string {
	samples, seconds := t.Samples*len(t.Rates), 0.0
	for _, s := range t.Seconds {
		seconds += s
	}
	switch {
	case len(t.Rates) < minRounds:
		return fmt.Sprintf("fewer than %d rounds do not show how much they differ", minRounds)
	case seconds < leastSeconds, samples < leastSamples && seconds < ample:
		return fmt.Sprintf("%d samples were read in %.1f s, and at least %d in %.1f s are needed", samples, seconds, leastSamples, leastSeconds)
	}
	return ""
}

// contradiction: where all processors are in use, an epoch gets shorter only as the
// processor time of a sample falls. If it is even shorter, other processes slowed base
// down; if it is longer, they slowed a down. Whole epochs are compared, with their start,
// since that is what their processor time covers.
func contradiction(a, base Turns) string {
	if a.CPU <= 0 || base.CPU <= 0 || base.Samples <= 0 {
		return ""
	}
	gain := Paired(base.Seconds, a.Seconds).Median * float64(a.Samples) / float64(base.Samples)
	explained := base.CPU / a.CPU
	more := base.Busy >= InUse && gain > explained*unexplained
	less := a.Busy >= InUse && gain*unexplained < explained
	if !more && !less {
		return ""
	}
	return fmt.Sprintf("the processors were the limit, and epochs are %.2f× as fast where processor time explains %.2f×", gain, explained)
}

// wideGain: an interval may be wide where the gain is large. It may have any width where
// all of it says that nothing is gained.
func wideGain(gain Interval) string {
	if gain.High <= 1 {
		return ""
	}
	return wide("gain", gain, max(widest, gain.Median), "×")
}

// wide: the upper end of an interval is more than so many times the lower end.
func wide(what string, i Interval, most float64, unit string) string {
	if i.Low > 0 && i.High <= most*i.Low {
		return ""
	}
	return fmt.Sprintf("the %s may be anything from %.3g%s to %.3g%s", what, i.Low, unit, i.High, unit)
}

// Median of v; 0 of nothing.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// Interval is an estimate, and the interval in which the true value lies in 95 of 100
// repetitions.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Paired is the median of a[i]/b[i], of measurements that were made in turn, with
// an interval by the bootstrap: medians of samples drawn from the ratios.
func Paired(a, b []float64) Interval {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return Bootstrap(ratios)
}

// Bootstrap is the median of v with its interval. The same v gives the same.
func Bootstrap(v []float64) Interval {
	if len(v) == 0 {
		return Interval{}
	}
	const draws = 2000
	random := rand.New(rand.NewPCG(1, uint64(len(v))))
	medians := make([]float64, draws)
	drawn := make([]float64, len(v))
	for i := range medians {
		for j := range drawn {
			drawn[j] = v[random.IntN(len(v))]
		}
		medians[i] = Median(drawn)
	}
	slices.Sort(medians)
	return Interval{Median(v), medians[draws/40], medians[draws-1-draws/40]}
}

// Compare has n subjects take turns, in random order in each round: what disturbs the machine
// for a while disturbs all of them. rounds is asked before each round how many there are to be.
func Compare(ctx context.Context, random *rand.Rand, n int, rounds func(done int) int, turn func(round, subject int) error) error {
	for round := 0; round < rounds(round); round++ {
		for _, i := range random.Perm(n) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := turn(round, i); err != nil {
				return err
			}
		}
	}
	return nil
}
