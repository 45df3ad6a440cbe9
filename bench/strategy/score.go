package strategy

import (
	"errors"
	"math"
	"slices"

	"github.com/pipefs/pipefs/bench/stats"
)

// Weights say how much each of three things counts: little time offline, little storage,
// much throughput.
type Weights struct {
	Time       float64 `json:"time"`
	Storage    float64 `json:"storage"`
	Throughput float64 `json:"throughput"`
}

// DefaultWeights are those of PRESTO.
var DefaultWeights = Weights{Throughput: 1}

// Check refuses weights that are all zero, negative or not finite.
func (w Weights) Check() error {
	for _, v := range []float64{w.Time, w.Storage, w.Throughput} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("weights are numbers from 0 on")
		}
	}
	if w.Time+w.Storage+w.Throughput == 0 {
		return errors.New("all weights are 0: one at least has to be more")
	}
	return nil
}

// normal scales values to the range from 0 to 1. It is nil where all are the same: then
// they do not distinguish anything.
func normal(v []float64) []float64 {
	low, high := slices.Min(v), slices.Max(v)
	if low == high {
		return nil
	}
	out := make([]float64, len(v))
	for i := range v {
		out[i] = (v[i] - low) / (high - low)
	}
	return out
}

// scores is the score of each strategy: w_p(1−p̂) + w_s(1−ŝ) + w_t·t̂.
func (w Weights) scores(offline, storage, throughput []float64) []float64 {
	out := make([]float64, len(offline))
	if len(out) == 0 {
		return out
	}
	for i, v := range normal(offline) {
		out[i] += w.Time * (1 - v)
	}
	for i, v := range normal(storage) {
		out[i] += w.Storage * (1 - v)
	}
	for i, v := range normal(throughput) {
		out[i] += w.Throughput * v
	}
	return out
}

// Score scores all rows by weights, and finds the winner. It can be called again
// with others.
func (r *Report) Score(w Weights) {
	r.Weights = w
	r.Winner, r.Base, r.Gain, r.Sure = -1, -1, stats.Interval{}, false
	all := func(v []float64) []float64 { return v }
	for i, score := range r.scores(all) {
		r.Rows[i].Score = max(score, 0)
	}
	r.Winner = r.best(all)
	if r.Winner < 0 {
		return
	}
	won := &r.Rows[r.Winner]
	for i := range r.Rows {
		row := &r.Rows[i]
		if !row.Split.Stored && len(row.Lasting()) > 0 && (r.Base < 0 || row.Workers == won.Workers) {
			r.Base = i
		}
	}
	if r.Base < 0 {
		return
	}
	base := &r.Rows[r.Base]
	r.Gain = stats.Paired(won.Lasting(), base.Lasting())
	// The fastest of several noisy rates looks faster than it is.
	if r.Rounds >= 4 && r.best(half(0)) == r.Winner {
		r.Sure = true
		r.Gain = stats.Paired(half(1)(won.Lasting()), half(1)(base.Lasting()))
	}
}

// half picks every other round.
func half(from int) func([]float64) []float64 {
	return func(v []float64) (out []float64) {
		for i := from; i < len(v); i += 2 {
			out = append(out, v[i])
		}
		return out
	}
}

// scores is the score of each row over some of the rounds; −1 where there is none.
func (r *Report) scores(rounds func([]float64) []float64) []float64 {
	var offline, storage, throughput []float64
	var rows []int
	out := make([]float64, len(r.Rows))
	for i := range r.Rows {
		row := &r.Rows[i]
		out[i] = -1
		if rates := rounds(row.Lasting()); len(rates) > 0 {
			rows = append(rows, i)
			offline, storage = append(offline, row.Offline), append(storage, float64(row.Stored))
			throughput = append(throughput, stats.Median(rates))
		}
	}
	for k, score := range r.Weights.scores(offline, storage, throughput) {
		out[rows[k]] = score
	}
	return out
}

// best is the row with the highest score. Of equal ones it is the first, which stores
// less.
func (r *Report) best(rounds func([]float64) []float64) int {
	best, high := -1, -1.0
	for i, score := range r.scores(rounds) {
		if score > high {
			best, high = i, score
		}
	}
	return best
}
