package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/strategy"
	"github.com/pipefs/pipefs/bench/text"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/transcode"
)

// usualSamples is how many samples strategies are compared with.
const usualSamples = 400

// strategies compares where to split the pipeline.
func (b *bench) strategies(ctx context.Context) error {
	c := b.c
	if b.plain == "" {
		return exit.Errorf(exit.Usage, "--pipeline reads the files as they are: name a dataset, or the --dataset of this store")
	}
	p, err := strategy.Parse(b.registry, c.pipeline)
	if err != nil {
		return err
	}
	pipelines := []transcode.Pipeline{p}
	if c.grey {
		more, err := strategy.WithGrey(b.registry, p)
		if len(more) == 0 {
			return exit.With(exit.Usage, err)
		}
		if err != nil { // some are possible
			fmt.Fprintf(b.env.stderr, "pipefs: left out: %v\n", err)
		}
		pipelines = append(pipelines, more...)
	}
	files := loader.Evenly(b.files, usualSamples)
	if c.samples != 0 {
		files = loader.Evenly(b.files, c.samples)
	}
	if err := b.noteRefusals(ctx, p.String()); err != nil {
		return err
	}
	shown := terminal.NewPhases(b.env.stderr)
	defer shown.Done()
	var reports []*strategy.Report
	for _, p := range pipelines {
		var r *strategy.Report
		r, err = strategy.Run(ctx, strategy.Config{
			Registry: b.registry, Roles: c.roles, Pipeline: p, Root: b.plain, Files: files, Dataset: len(b.files), Work: b.work,
			Workers: c.parallel, Compressions: c.compressions, Caches: c.caches, Rounds: c.rounds, Weights: c.weights,
			Progress: func(what string) { shown.Show(p.String() + ": " + what) },
		})
		if r != nil {
			reports = append(reports, r)
		}
		if err != nil {
			break
		}
	}
	shown.Done()
	if e := b.printReports(reports); e != nil {
		return errors.Join(e, err)
	}
	if ctx.Err() != nil {
		return exit.Errorf(exit.Interrupted, "interrupted; what there is was measured before")
	}
	return err
}

// printReports writes the reports to the standard output.
func (b *bench) printReports(reports []*strategy.Report) error {
	if b.c.asJSON && len(reports) > 0 {
		return terminal.PrintJSON(b.env.stdout, reports)
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(b.env.stdout)
		}
		for _, line := range b.limited {
			fmt.Fprintln(b.env.stdout, terminal.Wrap("limits: "+line, 0))
		}
		text.Strategies(b.env.stdout, r)
	}
	return nil
}
