package stats

import (
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
