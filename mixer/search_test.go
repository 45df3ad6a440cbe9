package mixer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPredict(t *testing.T) {
	c := Costs{LoadRaw: 0.010, LoadEncoded: 0.002, Decode: 0.012}
	for _, test := range []struct{ share, load, decode float64 }{
		{0, 500, 1 / 0.012}, {1, 100, math.Inf(1)}, {0.5, 1 / 0.006, 1 / 0.006},
	} {
		load, decode := c.Predict(test.share)
		if math.Abs(load-test.load) > 1e-9*test.load || decode != test.decode && math.Abs(decode-test.decode) > 1e-9*test.decode {
			t.Errorf("share %v: %v and %v, want %v and %v", test.share, load, decode, test.load, test.decode)
		}
	}
	if best := c.Best(Ratios - 1); best != 5 {
		t.Errorf("best at %d, want 5", best)
	}
	if best := c.Best(3); best != 3 {
		t.Errorf("best at %d where 3 is the most", best)
	}
}

// TestSearch: wherever it begins it ends at the top, for curves that rise and then
// fall, and asks for no ratio twice.
func TestSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		c := Costs{LoadRaw: random.ExpFloat64(), LoadEncoded: random.ExpFloat64() / 10, Decode: random.ExpFloat64()}
		most := random.IntN(Ratios)
		var asked []int
		curve := func(i int) float64 { return min(c.Predict(ShareOf(i))) }
		best, rates, err := Search(random.IntN(most+1), most, func(ratios []int) ([]float64, error) {
			var got []float64
			for _, i := range ratios {
				if i < 0 || i > most || slices.Contains(asked, i) {
					t.Fatalf("asked for %d of %d after %v", i, most, asked)
				}
				asked = append(asked, i)
				got = append(got, curve(i))
			}
			return got, nil
		})
		if err != nil || len(rates) != len(asked) {
			t.Fatal(err, rates, asked)
		}
		if top := curve(c.Best(most)); curve(best) < top {
			t.Fatalf("%+v up to %d: ended at %d with %v, the top is %v", c, most, best, curve(best), top)
		}
	}
}
