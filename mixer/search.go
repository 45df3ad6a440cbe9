package mixer

import "math"

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
// start. measure runs several ratios side by side and returns their rates, in
// samples a second; it is asked for the start, its neighbours and both ends, and
// then for the neighbours of whatever is best, until the best has none that is not
// known.
//
// It goes by what was measured of loading and decoding together. A search by which
// of the two is slower only brackets where they cross, and ends beside the optimum
// as often as not.
func Search(start, most int, measure func(ratios []int) ([]float64, error)) (best int, rates map[int]float64, err error) {
	rates = map[int]float64{}
	wanted := []int{start, start - 1, start + 1, 0, most}
	for {
		var ask []int
		for _, i := range wanted {
			if _, known := rates[i]; !known && i >= 0 && i <= most {
				rates[i] = 0
				ask = append(ask, i)
			}
		}
		if len(ask) == 0 {
			return best, rates, nil
		}
		got, err := measure(ask)
		if err != nil {
			return best, rates, err
		}
		for n, i := range ask {
			rates[i] = got[n]
		}
		for i := range most + 1 {
			if rates[i] > rates[best] {
				best = i
			}
		}
		wanted = []int{best - 1, best + 1}
	}
}
