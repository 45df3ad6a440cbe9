package mixer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestLongest(t *testing.T) {
	tests := map[string]struct {
		candidates []Candidate
		want       int
	}{
		"the only one":             {[]Candidate{{Steps: 0, Bytes: 100, Dataset: true}}, 0},
		"fewest steps left":        {[]Candidate{{Steps: 0, Bytes: 10}, {Steps: 3, Bytes: 1000}, {Steps: 1, Bytes: 5}}, 1},
		"the smaller of two alike": {[]Candidate{{Steps: 1, Bytes: 20}, {Steps: 1, Bytes: 10}, {Steps: 0, Bytes: 1}}, 1},
		"the first of two equal":   {[]Candidate{{Steps: 1, Bytes: 10}, {Steps: 1, Bytes: 10}}, 0},
	}
	for name, test := range tests {
		r := Request{Key: 7, Steps: 3, Candidates: test.candidates}
		if got := (Longest{}).Choose(r); got != test.want {
			t.Errorf("%s: chose %d, want %d", name, got, test.want)
		}
	}
}

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

// TestSearch: wherever it begins it ends at the top or beside it, for curves that
// rise and then fall.
func TestSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		c := Costs{LoadRaw: random.ExpFloat64(), LoadEncoded: random.ExpFloat64() / 10, Decode: random.ExpFloat64()}
		most := random.IntN(Ratios)
		curve := func(i int) float64 { return min(c.Predict(ShareOf(i))) }
		times := map[int]int{}
		best, rates, err := Search(random.IntN(most+1), most, func(ratios []int) ([]float64, error) {
			var got []float64
			for _, i := range ratios {
				if i < 0 || i > most || slices.Contains(ratios[:len(got)], i) {
					t.Fatalf("asked for %v of %d", ratios, most)
				}
				times[i]++
				got = append(got, curve(i))
			}
			return got, nil
		})
		if err != nil || len(rates) != len(times) || times[best] != 2 {
			t.Fatal(err, best, rates, times)
		}
		top := c.Best(most)
		if math.Abs(float64(best-top)) > 1 {
			t.Fatalf("%+v up to %d: ended at %d, the top is %d", c, most, best, top)
		}
	}
}

// TestSearchBesideNoise: with an error of 6 % a measurement, it loses no more than
// that, and hardly anything in the mean.
func TestSearchBesideNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	const runs = 2000
	lost, worst := 0.0, 0.0
	for range runs {
		c := Costs{LoadRaw: 1, LoadEncoded: 0.1 + 0.4*random.Float64(), Decode: 0.3 + random.Float64()}
		// Where disk and decoder are both busy each waits for the other now and then.
		curve := func(i int) float64 {
			load, decode := c.Predict(ShareOf(i))
			return math.Pow(math.Pow(load, -4)+math.Pow(decode, -4), -0.25)
		}
		sums, counts := map[int]float64{}, map[int]float64{}
		best, _, err := Search(c.Best(Ratios-1), Ratios-1, func(ratios []int) ([]float64, error) {
			var got []float64
			for _, i := range ratios {
				sums[i] += curve(i) * (1 + 0.06*random.NormFloat64())
				counts[i]++
				got = append(got, sums[i]/counts[i])
			}
			return got, nil
		})
		testenv.Must(t, err)
		top := 0.0
		for i := range Ratios {
			top = max(top, curve(i))
		}
		loss := 1 - curve(best)/top
		lost += loss / runs
		worst = max(worst, loss)
	}
	if lost > 0.02 || worst > 0.15 {
		t.Errorf("lost %.3f in the mean, %.3f at worst", lost, worst)
	}
	t.Logf("lost %.3f in the mean, %.3f at worst", lost, worst)
}
