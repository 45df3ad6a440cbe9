package strategy

import (
	"errors"
	"math"
	"slices"

	"github.com/pipefs/pipefs/bench/views"
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
	r.Winner, r.Base, r.Gain, r.Sure = -1, -1, views.Interval{}, false
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
	r.Gain = views.Paired(won.Lasting(), base.Lasting())
	// The fastest of several noisy rates looks faster than it is.
	if r.Rounds >= 4 && r.best(half(0)) == r.Winner {
		r.Sure = true
		r.Gain = views.Paired(half(1)(won.Lasting()), half(1)(base.Lasting()))
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
			throughput = append(throughput, views.Median(rates))
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

// Report is all that was measured of a pipeline. Bytes and seconds are those of the
// samples that were read; [Report.Whole] tells those of the dataset.
type Report struct {
	Pipeline string `json:"pipeline"`
	Samples  int    `json:"samples"` // that were read
	Dataset  int    `json:"dataset"` // samples that there are
	Bytes    int64  `json:"bytes"`   // of the files that were read
	Results  int64  `json:"results"` // bytes of the final results
	// No step applies to Unchanged samples; some steps do not apply to Partly samples.
	// Masks are among them.
	Unchanged int `json:"unchanged"`
	Partly    int `json:"partly"`
	// Faulty files were left out.
	Faulty []Fault `json:"faulty,omitempty"`
	Memory int64   `json:"memory"` // bytes that the page cache can hold, about
	Rounds int     `json:"rounds"` // that were finished
	// Interrupted: the run was stopped, and the report has what was measured before.
	Interrupted bool     `json:"interrupted,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	Weights     Weights  `json:"weights"`
	Rows        []Row    `json:"rows"`
	// Winner is the row with the highest score. Base is that of the files as they are,
	// which the gain is relative to. -1 where there is none.
	Winner int `json:"winner"`
	Base   int `json:"base"`
	// Gain is the rate of the winner over that of the base, paired by rounds. Sure: the
	// winner was chosen on one half of the rounds, and the gain is that of the other
	// half.
	Gain views.Interval `json:"gain"`
	Sure bool           `json:"sure"`
}

// Row is a strategy and what was measured of it.
type Row struct {
	Split       Split  `json:"split"`
	Compression string `json:"compression"`
	Workers     int    `json:"workers"`
	// Offline is the seconds that storing the results took, until they were safely on the
	// disk, from files that were not cached. OfflineCPU is the CPU seconds. Rows that
	// differ only in workers share what is stored.
	Offline    float64 `json:"offline_seconds"`
	OfflineCPU float64 `json:"offline_cpu_seconds"`
	// Stored is the bytes on the disk: of the files, where they are read.
	Stored int64 `json:"stored_bytes"`
	// Fits: what is stored of the whole dataset fits in half of the memory.
	Fits bool `json:"fits"`
	// Caches are the epochs by what they find in memory.
	Caches map[string]*Epochs `json:"caches"`
	// Score: higher is better. It is 0 for rows without a rate.
	Score float64 `json:"score"`

	stored *stored
}

// Rate is the median rate with a cache, samples/s; 0 where it was not measured.
func (r *Row) Rate(cache string) float64 { return r.Caches[cache].Rate() }

// Lasting are the rates of the epochs that a training consists of: those from the page
// cache where everything fits there, and those from the disk otherwise. Rates from the
// memory of the application count only where nothing else was measured.
func (r *Row) Lasting() []float64 {
	order := []string{NoCache, System, Application}
	if r.Fits {
		order = []string{System, NoCache, Application}
	}
	for _, cache := range order {
		if e := r.Caches[cache]; e != nil && len(e.Rates) > 0 {
			return e.Rates
		}
	}
	return nil
}

// Bandwidth is the bytes of what is stored that were read in a second, from the disk
// where that was measured.
func (r *Row) Bandwidth(samples int) float64 {
	rate := r.Rate(NoCache)
	if rate == 0 {
		rate = r.Rate(System)
	}
	return rate * float64(r.Stored) / float64(samples)
}

// Whole extrapolates the bytes of the samples that were read to the dataset.
func (r *Report) Whole(bytes int64) int64 {
	if r.Samples == 0 {
		return 0
	}
	return int64(float64(bytes) / float64(r.Samples) * float64(r.Dataset))
}
