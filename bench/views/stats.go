package views

import (
	"context"
	"math/rand/v2"
	"slices"
)

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
