package views

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		if got := Median(test.v); got != test.want {
			t.Errorf("%v: %v, want %v", test.v, got, test.want)
		}
	}
}

// TestBootstrapCovers: of many experiments whose truth is known, about 95 of 100
// intervals hold it.
func TestBootstrapCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const experiments = 300
	held := 0
	for range experiments {
		a, b := make([]float64, 15), make([]float64, 15)
		for i := range a {
			drift := 1 + random.Float64() // what both see
			a[i], b[i] = 1.2*drift*(1+0.1*random.NormFloat64()), drift
		}
		if r := Paired(a, b); r.Low <= 1.2 && 1.2 <= r.High {
			held++
		}
	}
	if share := float64(held) / experiments; share < 0.88 || share > 0.995 {
		t.Errorf("%.2f of the intervals hold the truth", share)
	}
}

// TestCompare: each subject has its turn in each round, rounds may become more, and an error
// or the end of the context ends it.
func TestCompare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var seen [5][3]int
	err := Compare(t.Context(), random, 3, func(done int) int { return min(5, 2+3*done) }, func(round, i int) error {
		seen[round][i]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for round, turns := range seen {
		if turns != [3]int{1, 1, 1} {
			t.Errorf("round %d: %v", round, turns)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	wrong, n := errors.New("wrong"), 0
	if err := Compare(ctx, random, 3, func(int) int { return 2 }, func(int, int) error { n++; return wrong }); !errors.Is(err, wrong) || n != 1 {
		t.Error(err, n)
	}
	if err := Compare(ctx, random, 3, func(int) int { return 2 }, func(int, int) error { n++; cancel(); return nil }); !errors.Is(err, context.Canceled) || n != 2 {
		t.Error(err, n)
	}
}
