package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/bench/strategy"
	"github.com/pipefs/pipefs/bench/text"
	"github.com/pipefs/pipefs/internal/compare"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/terminal"
)

// compareStrategies compares where to split the pipeline.
func compareStrategies(ctx context.Context, env *environ, c *benchConfig, b *compare.Bench) error {
	shown := terminal.NewPhases(env.stderr)
	reports, err := b.Strategies(ctx, c.weights, shown.Show)
	shown.Done()
	if e := printReports(env, c, b, reports); e != nil {
		return errors.Join(e, err)
	}
	if ctx.Err() != nil {
		return exit.Errorf(exit.Interrupted, "interrupted; what there is was measured before")
	}
	return err
}

// printReports writes the reports to the standard output.
func printReports(env *environ, c *benchConfig, b *compare.Bench, reports []*strategy.Report) error {
	if c.asJSON && len(reports) > 0 {
		return terminal.PrintJSON(env.stdout, reports)
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(env.stdout)
		}
		for _, line := range b.Limited {
			fmt.Fprintln(env.stdout, terminal.Wrap("limits: "+line, 0))
		}
		text.Strategies(env.stdout, r)
	}
	return nil
}
