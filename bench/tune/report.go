package tune

import (
	"context"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// Row is a view, for a mix at one ratio.
type Row struct {
	View    string  `json:"view"`
	Encoded string  `json:"encoded"` // what the rest of the mix is made from
	Share   float64 `json:"share"`   // materialized, 0 to 1
	// Load and Decode are the predicted rates, samples/s, of a mix; Decode is
	// infinite where there is nothing to decode.
	Load   float64 `json:"load,omitempty"`
	Decode float64 `json:"-"`
	// Rates that were measured, samples/s, one a round, of first reads from the
	// disk; none where it was not.
	Rates []float64 `json:"rates,omitempty"`
	// Later are those of later epochs, for what the page cache holds; only of Views.
	Later []float64 `json:"later,omitempty"`
	// Bytes that all files of the view have, about; Fits: they fit in memory, so that
	// later epochs are what a training consists of. Only of Views.
	Bytes int64 `json:"bytes,omitempty"`
	Fits  bool  `json:"fits,omitempty"`
	// CPU is the median of the seconds that client and daemon together took a
	// sample in first reads, and LaterCPU in later epochs.
	CPU      float64 `json:"cpu_seconds,omitempty"`
	LaterCPU float64 `json:"later_cpu_seconds,omitempty"`
	// Doubt is why the rate that lasts does not show whether this is faster than the
	// originals; empty where it does. Only of Views.
	Doubt string `json:"doubt,omitempty"`

	first, later epochs
	bytes, files int64 // that were read for the first time
}

// epochs is the time, the CPU and the use of processors of each epoch.
type epochs struct {
	seconds []float64
	cpu     []float64 // seconds a sample
	uses    []loader.Use
}

// add takes down an epoch. Daemon is the CPU seconds that the daemon used.
func (e *epochs) add(r loader.Result, daemon float64, use loader.Use) {
	e.seconds, e.uses = append(e.seconds, r.Seconds), append(e.uses, use)
	e.cpu = append(e.cpu, (r.CPU+daemon)/float64(r.Files))
}

// turns is what is known of the lasting epochs.
func (r *Row) turns() views.Turns {
	rates, e := r.Rates, &r.first
	if r.Fits {
		rates, e = r.Later, &r.later
	}
	use := loader.Mean(e.uses, e.seconds)
	return views.Turns{
		Rates: rates, Seconds: e.seconds, Samples: int(r.files) / max(1, len(r.Rates)), CPU: views.Median(e.cpu),
		Busy: use.Busy, Others: use.Others,
	}
}

// Rate is the median of first reads.
func (r *Row) Rate() float64 { return views.Median(r.Rates) }

// LaterRate is the median of later epochs.
func (r *Row) LaterRate() float64 { return views.Median(r.Later) }

// Lasting is the rate that a training of many epochs sees.
func (r *Row) Lasting() float64 {
	if r.Fits {
		return r.LaterRate()
	}
	return r.Rate()
}

// Predicted is the rate of the slower side.
func (r *Row) Predicted() float64 { return min(r.Load, r.Decode) }

// Pair is what was found out about the mix of a view with one encoded representation.
type Pair struct {
	View    string      `json:"view"`
	Encoded string      `json:"encoded"`
	Costs   mixer.Costs `json:"costs"`
	Rows    []Row       `json:"rows"` // of all ratios
	Most    int         `json:"most"` // the highest ratio that the disk has room for
	Best    int         `json:"best"` // ratio
}

// best is the row of the best ratio, not measured yet.
func (p *Pair) best() *Row {
	r := &p.Rows[p.Best]
	return &Row{View: r.View, Encoded: r.Encoded, Share: r.Share}
}

// ByLoader reports whether the loader decodes what is not materialized.
func (p *Pair) ByLoader() bool { return strings.HasPrefix(p.View, transcode.Stored+"-") }

// Report is all that was measured.
type Report struct {
	Samples      int   `json:"samples"`            // of the store
	Materialized int64 `json:"materialized_bytes"` // that all of them take if they are
	Memory       int64 `json:"memory"`             // bytes that the page cache can hold, about
	// Assumed says for which loaders the views are.
	Assumed string `json:"assumed,omitempty"`
	// Rebuilt says that the originals of the store are rebuilt when they are first read,
	// and what that costs; empty where they are not.
	Rebuilt string `json:"rebuilt,omitempty"`
	// Pairs of representations that were mixed.
	Pairs []Pair `json:"pairs"`
	// Views are the best mixes and what they were compared with, measured side by side.
	Views  []Row `json:"views"`
	Rounds int   `json:"rounds"` // that they were measured in
	// Others is the share of the processors that other processes used before it began, if
	// it was too large.
	Others float64 `json:"others_before,omitempty"`
	// Winner is an index into Views; -1 where the figures are too noisy to tell, and
	// Noise says why.
	Winner int    `json:"winner"`
	Noise  string `json:"noise,omitempty"`
}

// decide finds the winner: the fastest, or the originals if nothing is surely worth
// more, or none where that cannot be told.
func (r *Report) decide() {
	original := slices.IndexFunc(r.Views, func(v Row) bool { return v.View == transcode.Original })
	turns := make([]views.Turns, len(r.Views))
	for i := range r.Views {
		turns[i] = r.Views[i].turns()
	}
	for i := range r.Views {
		switch {
		case original < 0:
			r.Views[i].Doubt = views.DoubtAlone(turns[i])
		case i != original:
			r.Views[i].Doubt = views.Doubt(turns[i], turns[original])
		}
	}
	if r.Winner, r.Noise = views.Verdict(turns, original); r.Noise != "" {
		r.Winner = -1
	}
}

// Gain is the winner's rate, that lasts, over that of the originals; 0 where the
// store does not have those, and where there is no winner.
func (r *Report) Gain() float64 {
	if r.Winner < 0 {
		return 0
	}
	for i := range r.Views {
		if r.Views[i].View == transcode.Original {
			return r.Views[r.Winner].Lasting() / r.Views[i].Lasting()
		}
	}
	return 0
}

// bestPair is the pair of a view with the fastest mix. An encoded representation that
// takes disk space of its own has to be worth it.
func (r *Report) bestPair(view string) (best *Pair) {
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if p.View == view && (best == nil || p.Rows[p.Best].Rate() > views.Worth*best.Rows[best.Best].Rate()) {
			best = p
		}
	}
	return best
}

// First is the mix that is fastest for first reads, of those that were measured side by
// side: its view and share. The originals are a mix in which nothing is materialized.
func (r *Report) First() (view string, share float64) {
	best := 0.0
	for i := range r.Views {
		row := &r.Views[i]
		if row.Encoded == "" && row.View != transcode.Original || row.Rate() <= best {
			continue
		}
		best, view, share = row.Rate(), row.View, row.Share
		if row.View == transcode.Original {
			view = ofStored(r.Pairs[0].View)
		}
	}
	return view, share
}

// run mounts, reads once and records what it cost. If asked to, it reads again what the
// page cache holds by then.
func (r *Row) run(ctx context.Context, c Config, options []string, again bool, names func(mnt string) []string) (err error) {
	return views.With(ctx, c.Program, c.Store, options, func(m *views.Mount) error {
		if err := loader.Forget(c.Store); err != nil {
			return err
		}
		pass := loader.Pass{Workers: c.Workers, Decode: loader.Decoder(codecs.Default(transcode.Limits{}))}
		files := names(m.Dir)
		result, err := r.first.pass(ctx, m, pass, files)
		if err != nil {
			return err
		}
		r.Rates, r.CPU = append(r.Rates, result.Rate()), views.Median(r.first.cpu)
		r.bytes, r.files = r.bytes+result.Bytes, r.files+int64(result.Files)
		if again {
			if result, err = r.later.pass(ctx, m, pass, files); err != nil {
				return err
			}
			r.Later, r.LaterCPU = append(r.Later, result.Rate()), views.Median(r.later.cpu)
		}
		return nil
	})
}

// pass reads files once, and records what it cost.
func (e *epochs) pass(ctx context.Context, m *views.Mount, pass loader.Pass, files []string) (result loader.Result, err error) {
	watch := loader.Watch()
	daemon, err := m.Spent(func() (err error) { result, err = pass.Run(ctx, files); return err })
	if err == nil {
		e.add(result, daemon.CPU, watch.Since(daemon.CPU))
	}
	return result, err
}
