package compare

import (
	"context"
	"fmt"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/strategy"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/transcode"
)

// usualSamples is how many samples strategies are compared with.
const usualSamples = 400

// Strategies compares where to split the pipeline.
func (b *Bench) Strategies(ctx context.Context, weights strategy.Weights, show func(string)) (reports []*strategy.Report, err error) {
	c := b.c
	if b.plain == "" {
		return nil, usage.Errorf("--pipeline reads the files as they are: name a dataset, or the --dataset of this store")
	}
	p, err := strategy.Parse(b.registry, c.Pipeline)
	if err != nil {
		return nil, err
	}
	pipelines := []transcode.Pipeline{p}
	if c.Grey {
		more, err := strategy.WithGrey(b.registry, p)
		if len(more) == 0 {
			return nil, usage.With(err)
		}
		if err != nil { // some are possible
			fmt.Fprintf(b.c.Stderr, "pipefs: left out: %v\n", err)
		}
		pipelines = append(pipelines, more...)
	}
	files := loader.Evenly(b.files, usualSamples)
	if c.Samples != 0 {
		files = loader.Evenly(b.files, c.Samples)
	}
	if err := b.noteRefusals(ctx, p.String()); err != nil {
		return nil, err
	}
	for _, p := range pipelines {
		var r *strategy.Report
		r, err = strategy.Run(ctx, strategy.Config{
			Registry: b.registry, Roles: c.Roles, Pipeline: p, Root: b.plain, Files: files, Dataset: len(b.files), Work: b.work,
			Workers: c.Parallel, Compressions: c.Compressions, Caches: c.Caches, Rounds: c.Rounds, Weights: weights,
			Progress: func(what string) { show(p.String() + ": " + what) },
		})
		if r != nil {
			reports = append(reports, r)
		}
		if err != nil {
			break
		}
	}
	return reports, err
}
