package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

func liquidItems() []*item {
	return []*item{
		{
			paper: "liquid", parts: []string{"Figure 1", "Figure 4", "Figure 5"}, title: "the training process and the system, drawn",
			reason: "drawings",
		},
		{
			paper: "liquid", parts: []string{"Figure 2"}, title: "use of processor, disk and accelerator by format",
			says:    "PNG gets 24.5 % of the accelerator's rate, BMP 27.4 %, JPEG, decoded by the GPU, 69.4 %.",
			differs: "the accelerator is a sleep, four times as fast as PNG can be read; disk of 100 MB/s; the processor decodes JPEG",
			name:    "liquid-figure2", seconds: 65, run: slowDisk(liquidUse),
		},
		{
			paper: "liquid", parts: []string{"Figure 3"}, title: "loading and decoding apart, and together, over the ratio",
			says:    "The best mix is where loading and decoding are equal: 20 % BMP.",
			differs: differsMix + "; only PNG with raw pixels",
			name:    "liquid-figure3", seconds: 1, run: liquidRatios,
		},
		{
			paper: "liquid", parts: []string{"Figure 6"}, title: "rate of data preparation against the single format",
			says:    "3.05 and 2.25 times for PNG (30 % and 70 % PNG), 1.54, 1.52 and about 1.05 times for JPEG (60 %, 60 %, 90 % JPEG).",
			differs: differsMix,
			name:    "liquid-figure6", seconds: 1, run: liquidPreparation,
		},
		{
			paper: "liquid", parts: []string{"Figure 7"}, title: "training from end to end",
			says:    "PNG: 1.58, 2.02 and 1.07 times; JPEG: 1.14, 1.25 and about 1 times (means of models).",
			differs: "the accelerator is a sleep, at three speeds; disk of 100 MB/s; the built-in loader",
			name:    "liquid-figure7", seconds: 105, run: slowDisk(liquidTraining),
		},
		{
			paper: "liquid", parts: []string{"Table 1", "Table 2"}, title: "machines, models and data sets",
			reason: "machines and models",
		},
	}
}

const differsMix = "two cores and one disk, slowed down by a cgroup, instead of three machines with GPUs and NVMe"

// mixed is what bench/research/mix keeps.
type mixed struct {
	Disk     string      `json:"disk"`
	Settings string      `json:"settings"`
	Cells    []mixedCell `json:"cells"`

	where string
}

type mixedCell struct {
	Format     string                  `json:"format"`
	Bandwidth  int64                   `json:"bandwidth"`
	View       string                  `json:"view"`
	Chosen     int                     `json:"chosen"`
	Best       int                     `json:"best"`
	Costs      mixer.Costs             `json:"costs"`
	Rates      [mixer.Ratios][]float64 `json:"rates"`
	Original   []float64               `json:"original"`
	ToOriginal views.Interval          `json:"chosen_to_original"`
}

func (c *mixedCell) speed() string {
	if c.Bandwidth == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d MB/s", c.Bandwidth/1e6)
}

// mixes is what `make bench-mix` has measured, or what it measures now, on less.
func (e *env) mixes(ctx context.Context) (*mixed, error) {
	if e.mixesFound != nil {
		return e.mixesFound, nil
	}
	dir := filepath.Join(filepath.Dir(e.out), "bench-mix")
	m := &mixed{}
	b, err := os.ReadFile(filepath.Join(dir, "mix.json"))
	if errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Join(e.work, "mix")
		e.say("running bench/research/mix")
		if _, err := command(ctx, "go", "-C", "bench/research", "run", "./mix", "-program", e.program, "-out", dir,
			"-samples", fmt.Sprint(e.n(160, 60)), "-rounds", fmt.Sprint(max(2, e.n(4, 2))), "-seconds", "0.4",
			"-bandwidths", "50,100,200", "-adaptive", ""); err != nil {
			return nil, err
		}
		m.where = "measured by `make bench-mix` in the same run"
		b, err = os.ReadFile(filepath.Join(dir, "mix.json"))
	}
	if err != nil {
		return nil, err
	}
	if m.where == "" {
		st, err := os.Stat(filepath.Join(dir, "mix.json"))
		if err != nil {
			return nil, err
		}
		m.where = "measured before, by `make bench-mix`, on " + st.ModTime().UTC().Format(time.DateOnly)
	}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "mix.json"), err)
	}
	if len(m.Cells) == 0 {
		return nil, fmt.Errorf("%s has no results: run `make bench-mix` again, or remove it", filepath.Join(dir, "mix.json"))
	}
	e.mixesFound = m
	return m, nil
}

func (m *mixed) setup() string { return fmt.Sprintf("%s; %s; %s", m.Settings, m.Disk, m.where) }

// liquidRatios is Figure 3.
func liquidRatios(ctx context.Context, e *env) (*result, error) {
	m, err := e.mixes(ctx)
	if err != nil {
		return nil, err
	}
	// A cell where neither end is the best says most. The one of the paper is like that.
	var c *mixedCell
	for i := range m.Cells {
		if k := &m.Cells[i]; k.Format == "png" && (c == nil || inside(k.best()) && !inside(c.best())) {
			c = k
		}
	}
	if c == nil {
		return nil, errors.New("mix.json has nothing of PNG: run `make bench-mix` again, or remove it")
	}
	t := table{Head: []string{"share materialized"}}
	load, decode, rate := []string{"**ours**, loading alone, samples/s"}, []string{"**ours**, decoding alone"}, []string{"**ours**, together, measured"}
	fig := figure{File: "liquid-figure3", Title: "PNG and raw pixels, disk of " + c.speed(), X: "share materialized", Y: "samples/s",
		Lines: []line{{Name: "loading alone"}, {Name: "decoding alone"}, {Name: "together, measured"}}}
	for i := range mixer.Ratios {
		share := mixer.ShareOf(i)
		l, d := c.Costs.Predict(share)
		got := views.Median(c.Rates[i])
		for j, v := range []float64{l, d, got} {
			if i == mixer.Ratios-1 && j == 1 {
				continue // nothing is decoded
			}
			f := &fig.Lines[j]
			f.X, f.Y = append(f.X, share), append(f.Y, v)
		}
		if i%2 != 0 {
			continue
		}
		t.Head = append(t.Head, fmt.Sprintf("%.0f %%", 100*share))
		load, rate = append(load, fmt.Sprintf("%.0f", l)), append(rate, fmt.Sprintf("%.0f", got))
		if i == mixer.Ratios-1 {
			decode = append(decode, "–")
		} else {
			decode = append(decode, fmt.Sprintf("%.0f", d))
		}
	}
	t.add(load...)
	t.add(decode...)
	t.add(rate...)
	best := c.best()
	ends := max(views.Median(c.Rates[0]), views.Median(c.Rates[mixer.Ratios-1]))
	return &result{
		Setup: m.setup(), Tables: []table{t}, Figures: []figure{fig},
		Ours: fmt.Sprintf("with a disk of %s, %d %% materialized pixels are best (the paper: 20 %%), %.2f times the better of all encoded and all materialized.",
			c.speed(), 10*best, views.Median(c.Rates[best])/ends),
	}, nil
}

func (c *mixedCell) best() (best int) {
	for i := range c.Rates {
		if views.Median(c.Rates[i]) > views.Median(c.Rates[best]) {
			best = i
		}
	}
	return best
}

func inside(ratio int) bool { return ratio > 0 && ratio < mixer.Ratios-1 }

// liquidPreparation is Figure 6.
func liquidPreparation(ctx context.Context, e *env) (*result, error) {
	m, err := e.mixes(ctx)
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"", "disk", "share materialized", "over the files themselves", "the files, samples/s", "the mix, samples/s"}}
	t.add("PNG, T4 and V100 (paper)", "4 NVMe", "70 %", "3.05×", "–", "–")
	t.add("PNG, RTX3090 (paper)", "2 NVMe", "30 %", "2.25×", "–", "–")
	t.add("JPEG, T4 (paper)", "4 NVMe", "40 %", "1.54×", "–", "–")
	t.add("JPEG, V100 (paper)", "4 NVMe", "40 %", "1.52×", "–", "–")
	t.add("JPEG, RTX3090 (paper)", "2 NVMe", "10 %", "1.05×", "–", "–")
	highest := map[string]float64{}
	for i := range m.Cells {
		c := &m.Cells[i]
		gain := c.ToOriginal
		t.add("**ours**, "+strings.ToUpper(c.Format), c.speed(), fmt.Sprintf("%d %%, `%s`", 10*c.Chosen, c.View),
			fmt.Sprintf("%.2f× (%.2f – %.2f)", gain.Median, gain.Low, gain.High),
			fmt.Sprintf("%.0f", views.Median(c.Original)), fmt.Sprintf("%.0f", views.Median(c.Rates[c.Chosen])))
		if c.Chosen > 0 { // otherwise it is the files against themselves
			highest[c.Format] = max(highest[c.Format], gain.Median)
		}
	}
	r := &result{Setup: m.setup(), Tables: []table{t}}
	r.Ours = fmt.Sprintf("PNG gains at most %.2f times", highest["png"])
	if highest["jpeg"] > 1 {
		r.Ours += fmt.Sprintf(", JPEG %.2f times.", highest["jpeg"])
	} else {
		r.Ours += ", JPEG nothing: first reads of the files themselves are the fastest."
	}
	r.note("With 0 %% of `stored-ppm` all files are those of the control: that ratio is noise.")
	return r, nil
}

// liquidSpeed is the disk of Figures 2 and 7. With it, neither PNG alone nor materialized
// pixels alone are best.
const liquidSpeed = 100e6

// liquidStores makes stores of the same pictures as PNG and as JPEG, all of which
// are materialized, too.
func (e *env) liquidStores(ctx context.Context) (map[string]string, int, error) {
	n := e.n(240, 24)
	if e.stores != nil {
		return e.stores, n, nil
	}
	stores := map[string]string{}
	for _, format := range []string{"png", "jpg"} {
		dataset := filepath.Join(e.work, "liquid-"+format)
		e.say("making %d pictures as %s", n, format)
		if _, err := generate(ctx, filepath.Join(dataset, "all"), format, 0, n, 500, 375); err != nil {
			return nil, 0, err
		}
		stores[format] = dataset + ".store"
		if err := e.pipefs(ctx, "pack", "--originals", "keep", dataset, stores[format]); err != nil {
			return nil, 0, err
		}
		if err := e.pipefs(ctx, "materialize", stores[format], "ppm"); err != nil {
			return nil, 0, err
		}
	}
	e.stores = stores
	return stores, n, nil
}

// way is how a store is read.
type way struct {
	name, store, view string
	share             float64
}

// used is what cold epochs took, one a round: samples/s, and the shares of the time that
// the accelerator computed, of the processors that client and daemon used together,
// and of what a disk of liquidSpeed gives.
type used struct{ rates, goodput, cpu, disk []float64 }

// epochs reads cold epochs with an accelerator; all ways take turns.
func (e *env) epochs(ctx context.Context, rounds, seed int, compute loader.Compute, ways ...way) ([]used, error) {
	all := make([]used, len(ways))
	for round := range rounds {
		for i, w := range ways {
			err := e.mount(ctx, w.store, []string{"--mix", fmt.Sprint(w.share)}, func(m *views.Mount) error {
				if err := loader.Forget(w.store); err != nil {
					return err
				}
				var files []string
				if err := filepath.WalkDir(filepath.Join(m.Dir, w.view), func(name string, e fs.DirEntry, err error) error {
					if err == nil && !e.IsDir() {
						files = append(files, name)
					}
					return err
				}); err != nil {
					return err
				}
				var got loader.Epoch
				daemon, err := m.Spent(func() (err error) {
					got, err = (loader.Builtin{}).Epoch(ctx, loader.Job{Files: files, Seed: uint64(seed + round), Compute: compute})
					return err
				})
				u := &all[i]
				u.rates, u.goodput = append(u.rates, got.Rate), append(u.goodput, got.Utilisation)
				u.cpu = append(u.cpu, (got.CPU+daemon.CPU)/got.Seconds/float64(runtime.NumCPU()))
				u.disk = append(u.disk, float64(daemon.Read)/got.Seconds/liquidSpeed)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// computeAt is an accelerator that takes so many samples a second.
func computeAt(rate float64) loader.Compute {
	const batch = 16
	return loader.Compute{Batch: batch, Time: time.Duration(batch / rate * 1e9)}
}

// liquidUse is Figure 2.
func liquidUse(ctx context.Context, e *env) (*result, error) {
	stores, n, err := e.liquidStores(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.limit(liquidSpeed); err != nil {
		return nil, err
	}
	ways := []way{
		{"PNG", stores["png"], transcode.Original, 0}, {"materialized pixels (PPM)", stores["png"], "ppm", 1},
		{"JPEG", stores["jpg"], transcode.Original, 0}, {"half PNG, half materialized", stores["png"], "ppm", 0.5},
	}
	rounds := e.n(4, 2)
	alone, err := e.epochs(ctx, rounds, 0, loader.Compute{}, ways[0])
	if err != nil {
		return nil, err
	}
	ideal := 4 * views.Median(alone[0].rates)
	all, err := e.epochs(ctx, rounds, 0, computeAt(ideal), ways...)
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"", "processor", "disk", "accelerator"}}
	t.add("PNG (paper)", "100 %", "–", "24.5 %")
	t.add("BMP (paper)", "–", "100 %", "27.4 %")
	t.add("JPEG, decoded by the GPU (paper)", "below 100 %", "below 100 %", "69.4 %")
	percent := func(v []float64) string { return fmt.Sprintf("%.0f %%", 100*views.Median(v)) }
	r := &result{Setup: fmt.Sprintf("%d generated pictures of 500×375 pixels, first reads; the accelerator takes %.0f samples/s", n, ideal)}
	for w := range ways {
		t.add("**ours**, "+ways[w].name, percent(all[w].cpu), percent(all[w].disk), percent(all[w].goodput))
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("PNG uses %s of the processor, materialized pixels %s of the disk; the accelerator computes %s of the time with PNG, %s with materialized pixels, %s with JPEG and %s with half of each.",
		percent(all[0].cpu), percent(all[1].disk), percent(all[0].goodput), percent(all[1].goodput), percent(all[2].goodput), percent(all[3].goodput))
	r.note("Bursts and read-ahead can take the disk over 100 %%.")
	return r, nil
}

// liquidTraining is Figure 7.
func liquidTraining(ctx context.Context, e *env) (*result, error) {
	stores, n, err := e.liquidStores(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.limit(liquidSpeed); err != nil {
		return nil, err
	}
	t := table{Head: []string{"", "accelerator", "share materialized", "files, samples/s", "all materialized over files", "mix over files"}}
	t.add("PNG, in the mean of models on T4, V100, RTX3090 (paper)", "–", "70, 70, 30 %", "–", "–", "1.58×, 2.02×, 1.07×")
	t.add("PNG, the fastest model (paper)", "–", "70, 70, 30 %", "–", "–", "2.64×, 3.24×, 1.22×")
	t.add("PNG, the slowest model (paper)", "–", "–", "–", "–", "1.35× at most")
	t.add("JPEG, in the mean of models (paper)", "–", "40, 40, 10 %", "–", "–", "1.14×, 1.25×, about 1×")
	r := &result{Setup: fmt.Sprintf("%d generated pictures of 500×375 pixels, first reads", n)}
	rounds := e.n(4, 2)
	var outcome []string
	for _, format := range []string{"png", "jpg"} {
		files := way{"files", stores[format], transcode.Original, 0}
		share, err := e.bestShare(ctx, stores[format])
		if err != nil {
			return nil, err
		}
		alone, err := e.epochs(ctx, rounds, 0, loader.Compute{}, files)
		if err != nil {
			return nil, err
		}
		for _, speed := range []float64{0.75, 1.5, 4} {
			compute := views.Median(alone[0].rates) * speed
			got, err := e.epochs(ctx, rounds, 0, computeAt(compute), files, way{"materialized", stores[format], "ppm", 1}, way{"mix", stores[format], mixView, share})
			if err != nil {
				return nil, err
			}
			rates := [][]float64{got[0].rates, got[1].rates, got[2].rates}
			raw, mix := views.Paired(rates[1], rates[0]), views.Paired(rates[2], rates[0])
			name := strings.ToUpper(format)
			if format == "jpg" {
				name = "JPEG"
			}
			t.add("**ours**, "+name, fmt.Sprintf("%.0f samples/s, %.2g times the files", compute, speed), fmt.Sprintf("%.0f %%", 100*share),
				fmt.Sprintf("%.0f", views.Median(rates[0])), times(raw.Median), fmt.Sprintf("%.2f× (%.2f – %.2f)", mix.Median, mix.Low, mix.High))
			outcome = append(outcome, fmt.Sprintf("%.2f", mix.Median))
		}
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("with a slow, a middling and a fast accelerator the mix is %s times the files for PNG, and %s times for JPEG.",
		strings.Join(outcome[:3], ", "), strings.Join(outcome[3:], ", "))
	return r, nil
}

// mixView is the mix as Liquid has it: the loader decodes what is not materialized.
const mixView = transcode.Stored + "-ppm"

// bestShare tries some ratios, without an accelerator; 0 are the files themselves.
func (e *env) bestShare(ctx context.Context, store string) (float64, error) {
	var ways []way
	for _, share := range []float64{0, 0.2, 0.4, 0.5, 0.6, 0.8} {
		ways = append(ways, way{"mix", store, mixView, share})
	}
	all, err := e.epochs(ctx, e.n(2, 1), 100, loader.Compute{}, ways...)
	if err != nil {
		return 0, err
	}
	best := 0
	for i := range all {
		if views.Median(all[i].rates) > views.Median(all[best].rates) {
			best = i
		}
	}
	return ways[best].share, nil
}
