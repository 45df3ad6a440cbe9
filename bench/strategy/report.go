package strategy

import "github.com/pipefs/pipefs/bench/stats"

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
	Gain stats.Interval `json:"gain"`
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
