package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// pixels is the view that is materialized.
const pixels = "ppm"

// cell is one format at one speed of the disk.
type cell struct {
	Format    string `json:"format"`
	Bandwidth int64  `json:"bandwidth"` // bytes/s, 0 is no limit
	// View is the mix that tune found fastest for first reads: ppm or stored-ppm. Chosen
	// is its ratio, 0 to 10.
	View   string      `json:"view"`
	Chosen int         `json:"chosen"`
	Costs  mixer.Costs `json:"costs"`
	// Rates of that view, samples/s, of each ratio, one a round.
	Rates [mixer.Ratios][]float64 `json:"rates"`
	// Original are the rates of the files themselves. Decoded are those of pixels when
	// the mount decodes every sample.
	Original []float64 `json:"original"`
	Decoded  []float64 `json:"decoded"`

	// Best is the ratio that was best in the even rounds; the comparisons are of the
	// odd ones.
	Best       int            `json:"best"`
	ToBest     views.Interval `json:"chosen_to_best"`
	ToSingle   views.Interval `json:"chosen_to_best_single"`
	ToOriginal views.Interval `json:"chosen_to_original"`
	Single     string         `json:"single"` // the best single format
}

// cell measures one format at the present speed of the disk.
func (s *settings) cell(ctx context.Context, store, format string, bandwidth int64) (*cell, error) {
	c := &cell{Format: format, Bandwidth: bandwidth}
	out, err := exec.CommandContext(ctx, s.Program, "tune", "--json", "--mix-format", pixels, store).Output()
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		return nil, fmt.Errorf("pipefs tune: %w: %s", err, exited.Stderr)
	} else if err != nil {
		return nil, err
	}
	var report tune.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("pipefs tune: %w", err)
	}
	view, share := report.First()
	c.View, c.Chosen, c.Costs = view, int(math.Round(share*(mixer.Ratios-1))), report.Pairs[0].Costs

	names, err := list(ctx, store, s.Program)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(uint64(bandwidth), 9))
	type way struct {
		view  string
		share float64
		rates *[]float64
	}
	ways := []way{{transcode.Original, 0, &c.Original}, {pixels, 0, &c.Decoded}}
	for i := range c.Rates {
		ways = append(ways, way{c.View, mixer.ShareOf(i), &c.Rates[i]})
	}
	for range s.rounds {
		for _, i := range random.Perm(len(ways)) {
			files := slices.Clone(names)
			random.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
			n := max(48, int(s.seconds/c.Costs.Sample(ways[i].share)))
			rate, err := s.pass(ctx, store, ways[i].view, ways[i].share, files[:min(n, len(files))])
			if err != nil {
				return nil, err
			}
			*ways[i].rates = append(*ways[i].rates, rate)
		}
	}
	c.judge()
	return c, nil
}

// pass reads files of a view once, cold.
func (s *settings) pass(ctx context.Context, store, view string, share float64, files []string) (rate float64, err error) {
	err = views.With(ctx, s.Program, store, []string{"--mix", fmt.Sprint(share)}, func(m *views.Mount) error {
		if err := loader.Forget(store); err != nil {
			return err
		}
		paths := make([]string, len(files))
		for i, f := range files {
			paths[i] = filepath.Join(m.Dir, view, f)
		}
		result, err := loader.Pass{Decode: loader.Decoder(codecs.Default(transcode.Limits{}))}.Run(ctx, paths)
		rate = result.Rate()
		return err
	})
	return rate, err
}

// list lists the samples by the names that all views resolve.
func list(ctx context.Context, store, program string) (names []string, err error) {
	pictures := codecs.Default(transcode.Limits{})
	err = views.With(ctx, program, store, nil, func(m *views.Mount) error {
		root := filepath.Join(m.Dir, transcode.Original)
		return filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !pictures.IsSample(name) {
				return err
			}
			name, err = filepath.Rel(root, name)
			names = append(names, name)
			return err
		})
	})
	return names, err
}

// judge chooses on one half of the rounds, and compares on the other half.
func (c *cell) judge() {
	half := func(v []float64, odd int) (out []float64) {
		for i := odd; i < len(v); i += 2 {
			out = append(out, v[i])
		}
		return out
	}
	for i := range c.Rates {
		if views.Median(half(c.Rates[i], 0)) > views.Median(half(c.Rates[c.Best], 0)) {
			c.Best = i
		}
	}
	singles := map[string][]float64{"all materialized": c.Rates[mixer.Ratios-1], "all decoded here": c.Decoded, "originals": c.Original}
	for _, name := range []string{"all materialized", "all decoded here", "originals"} {
		if c.Single == "" || views.Median(half(singles[name], 0)) > views.Median(half(singles[c.Single], 0)) {
			c.Single = name
		}
	}
	chosen := half(c.Rates[c.Chosen], 1)
	c.ToBest = views.Paired(chosen, half(c.Rates[c.Best], 1))
	c.ToSingle = views.Paired(chosen, half(singles[c.Single], 1))
	c.ToOriginal = views.Paired(chosen, half(c.Original, 1))
}
