package mixer

import (
	"math"
	"slices"
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
