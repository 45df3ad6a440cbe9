// Package tune finds the mix of representations with which a store is read fastest here.
// It is the offline profiler of Liquid (section 4.1), for a loader that reads files.
//
// # Nouns
//
// The calibration samples are some samples of the store, evenly spread, that are
// materialized for the length of the measurement. A pair is what is mixed: materialized
// pixels, and an encoded representation of the same pixels. The encoded one is decoded by
// the mount, or by the loader if it is given the files themselves. The costs of a pair
// are the seconds that loading and decoding take, measured apart. They predict the rate
// of every ratio. The ratios around the best prediction, and both ends, are then measured
// as a training would read: mounted, with nothing in the page cache, by a loader on as
// many workers.
//
// A [Row] is a view at a ratio, and what was measured of it; a [Report] is all of
// them and the verdict.
package tune

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// Opened is an open store.
type Opened struct {
	*serve.Server
	Registry *transcode.Registry
	// Shares that are materialized, by the spec of the pipeline.
	Shares map[string]float64
	// Close closes it.
	Close func() error
}

// Config says what to measure, and how.
type Config struct {
	// Program is the path of pipefs, for mounts.
	Program string
	// Store is the directory. Dataset, if known, is the dataset, for originals that the
	// store cannot give back.
	Store, Dataset string
	// View is the view of pixels whose mix is looked for. Samples that are not
	// materialized are decoded by the mount; in the view of what is stored (stored-bmp)
	// they are decoded by the loader.
	View string
	// Others are views to compare it with: the first is original, unless that lacks samples.
	Others []string
	// L3: try L3 as the encoded representation, too.
	L3 bool
	// MaxBytes bounds what a mix may take on disk; 0 is no bound.
	MaxBytes int64
	// Workers of the loader; 0 means one a core.
	Workers int
	// Rounds is how often each pass is repeated, side by side with the others; 0 means 3.
	// From 3 on, the final comparison takes more rounds where passes are too short for a
	// verdict.
	Rounds int
	// Samples bounds the number of samples of a pass; 0 means 400.
	Samples int
	// Open opens the store. It is called again after something was materialized.
	Open func() (Opened, error)
	// Progress hears what is being done.
	Progress func(what string)
}

// passSeconds is about how long a pass may take, if there are enough samples. A shorter
// pass says little about a disk that is slowed down in intervals.
const passSeconds = 0.8

// fewest is the least number of samples of a pass: enough in three rounds for a verdict.
const fewest = 72

// mostRounds is the most rounds in which views are compared, unless more are asked for.
const mostRounds = 12

// quietWait is how long a run waits for a quiet machine. Fewer than three rounds are for a
// quick look.
func quietWait(rounds int) time.Duration {
	if rounds < 3 {
		return 0
	}
	return 15 * time.Second
}

// tuner is a run of Run.
type tuner struct {
	Config
	all          int          // samples of the store
	files        []serve.File // of the calibration, shuffled
	materialized int64        // bytes of all calibration samples
	random       *rand.Rand
	before       map[string]float64 // shares that are stored, by spec
	report       Report
}

// errNothing: there is no sample to choose.
var errNothing = errors.New("no sample of the store has pixels that can be materialized")

// Run measures. It leaves the fractions of the store as they were, even after an error.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	if c.Rounds <= 0 {
		c.Rounds = 3
	}
	if c.Samples <= 0 {
		c.Samples = 400
	}
	t := &tuner{Config: c, random: rand.New(rand.NewPCG(1, 2))}
	before, err := t.shares()
	if err != nil {
		return nil, err
	}
	t.before = before
	t.report.Others = views.Quiet(ctx, quietWait(c.Rounds), c.Progress)
	defer func() { err = errors.Join(err, t.restore(before)) }()
	if err := t.calibrate(ctx, before[c.View]); err != nil {
		return nil, err
	}
	if err := t.pairs(ctx); err != nil {
		return nil, err
	}
	if err := t.compare(ctx); err != nil {
		return nil, err
	}
	return &t.report, nil
}

// shares returns what is materialized now.
func (t *tuner) shares() (map[string]float64, error) {
	o, err := t.Open()
	if err != nil {
		return nil, err
	}
	return o.Shares, o.Close()
}

// restore gives the store the fractions that it had before. It cannot be interrupted.
func (t *tuner) restore(before map[string]float64) error {
	now, err := t.shares()
	if err != nil {
		return err
	}
	for spec, share := range now {
		if share != before[spec] {
			if e := t.materialize(context.Background(), spec, before[spec], 0); e != nil {
				err = errors.Join(err, fmt.Errorf("giving back what was stored to measure: %w", e))
			}
		}
	}
	return err
}

// most is the highest ratio that the budget has room for.
func (t *tuner) most() int {
	most := mixer.Ratios - 1
	for t.MaxBytes > 0 && most > 0 && mixer.ShareOf(most)*float64(t.report.Materialized) > float64(t.MaxBytes) {
		most--
	}
	return most
}

// pairs finds the best mix of each kind. Where the loader decodes, the costs are those of
// the mount, since both read the same files and decode alike.
func (t *tuner) pairs(ctx context.Context) error {
	costs, err := t.costs(ctx, "source")
	if err != nil {
		return err
	}
	if err := t.pair(ctx, t.View, "source", costs); err != nil {
		return err
	}
	if t.hasOriginals() {
		if err := t.pair(ctx, ofStored(t.View), "source", costs); err != nil {
			return err
		}
	}
	if !t.L3 {
		return nil
	}
	if err := t.prepare(ctx, "l3", t.before["l3"]); err != nil {
		return err
	}
	if costs, err = t.costs(ctx, "l3"); err != nil {
		return err
	}
	return t.pair(ctx, t.View, "l3", costs)
}

// hasOriginals reports whether the store can give the files back. It may have been packed without.
func (t *tuner) hasOriginals() bool { return slices.Contains(t.Others, transcode.Original) }

// ofStored is the view that shows what is materialized, and the originals beside.
func ofStored(view string) string { return transcode.Stored + "-" + view }

// pair finds the best mix of a view with an encoded representation.
func (t *tuner) pair(ctx context.Context, view, encoded string, costs mixer.Costs) error {
	most := t.most()
	rows := map[int]*Row{}
	best, _, err := mixer.Search(costs.Best(most), most, func(ratios []int) ([]float64, error) {
		for _, i := range ratios {
			if rows[i] == nil {
				rows[i] = &Row{View: view, Encoded: encoded, Share: mixer.ShareOf(i)}
			}
		}
		err := views.Compare(ctx, t.random, len(ratios), func(int) int { return t.Rounds }, func(round, n int) error {
			row := rows[ratios[n]]
			t.Progress(fmt.Sprintf("measuring %s with %.0f %% materialized, round %d of %d", view, 100*row.Share, round+1, t.Rounds))
			return t.measure(ctx, row, t.passLength(costs, row.Share), false)
		})
		if err != nil {
			return nil, err
		}
		rates := make([]float64, len(ratios))
		for n, i := range ratios {
			rates[n] = rows[i].Rate()
		}
		return rates, nil
	})
	if err != nil {
		return err
	}
	p := Pair{View: view, Encoded: encoded, Costs: costs, Most: most, Best: best}
	for i := range mixer.Ratios {
		row := rows[i]
		if row == nil {
			row = &Row{View: view, Encoded: encoded, Share: mixer.ShareOf(i)}
		}
		row.Load, row.Decode = costs.Predict(row.Share)
		p.Rows = append(p.Rows, *row)
	}
	t.report.Pairs = append(t.report.Pairs, p)
	return nil
}

// passLength is how many files a pass of a mix takes to last passSeconds, by prediction.
func (t *tuner) passLength(c mixer.Costs, share float64) int {
	return min(len(t.files), max(fewest, int(passSeconds/c.Sample(share))))
}

// measure runs one cold pass through a mount of its own, and if asked to, another one
// after it.
func (t *tuner) measure(ctx context.Context, row *Row, files int, again bool) (err error) {
	options := []string{"--mix", fmt.Sprint(row.Share)}
	if t.Dataset != "" {
		options = append(options, "--dataset", t.Dataset)
	}
	order := slices.Clone(t.files[:files])
	t.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return row.run(ctx, t.Config, options, again, func(mnt string) []string {
		names := make([]string, len(order))
		for i, f := range order {
			names[i] = filepath.Join(mnt, row.View, f.Path)
		}
		return names
	})
}

// compare measures the best mix beside the other views.
func (t *tuner) compare(ctx context.Context) error {
	pair := t.report.bestPair(t.View)
	if pair.Encoded == "source" && t.L3 {
		// Otherwise the mix would still use it.
		if err := t.materialize(ctx, "l3", t.before["l3"], 0); err != nil {
			return err
		}
	}
	rows := []*Row{pair.best()}
	if t.hasOriginals() {
		// With nothing materialized, those are the originals.
		if byLoader := t.report.bestPair(ofStored(t.View)); byLoader.Best > 0 {
			rows = append(rows, byLoader.best())
		}
	}
	for _, v := range t.Others {
		rows = append(rows, &Row{View: v})
	}
	rounds := t.Rounds
	planned := func(done int) int {
		if done == 1 && t.Rounds >= 3 {
			rounds = max(t.Rounds, min(mostRounds, enough(rows)))
		}
		return rounds
	}
	err := views.Compare(ctx, t.random, len(rows), planned, func(round, i int) error {
		row := rows[i]
		t.Progress(fmt.Sprintf("comparing %s, round %d of %d", row.View, round+1, rounds))
		return t.measure(ctx, row, t.passLength(pair.Costs, row.Share), true)
	})
	if err != nil {
		return err
	}
	t.report.Rounds = rounds
	memory, err := loader.Memory()
	if err != nil {
		return err
	}
	t.report.Memory = memory
	for _, row := range rows {
		row.Bytes = row.bytes / row.files * int64(t.all)
		// The rest is for the training.
		row.Fits = row.Bytes < memory/2
		t.report.Views = append(t.report.Views, *row)
	}
	t.report.decide()
	return nil
}

// enough is how many rounds a verdict needs, going by what was measured so far.
func enough(rows []*Row) (rounds int) {
	for _, row := range rows {
		for _, seconds := range slices.Concat(row.first.seconds, row.later.seconds) {
			rounds = max(rounds, views.Enough(int(row.files)/len(row.Rates), seconds))
		}
	}
	return rounds
}
