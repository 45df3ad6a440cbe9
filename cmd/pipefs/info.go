package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/transcode"
)

func infoCommand(env *environ) *cli.Command {
	var asJSON, similar bool
	var measured int
	var limits transcode.Limits
	var access remote.Access
	return &cli.Command{
		Name: "info", ArgsUsage: "STORE|DATASET", Category: stores, Usage: "summarize a dataset or a store",
		Description: "Counts the samples of each format and mode, and lists broken ones. Of a store it also shows how it was packed, the bytes of each representation, how originals are restored, and which views are materialized. --mssim measures how similar the pictures of MNT/scan1 … scan10 are to the complete ones.",
		UsageText: `pipefs info ~/imagenet
pipefs info /data/in.store
pipefs info --json ~/imagenet | jq -r '.faults[].path'
pipefs info --mssim ~/imagenet      # which fidelity to train from`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "mssim", Destination: &similar, Usage: "measure how similar some samples are at each fidelity (1 is equal)"},
			opt("samples", "N", fmt.Sprint(usuallyMeasured), intoInt(&measured, 1, 1<<30), "set how many samples --mssim measures"),
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON, with all faults"},
		}, remoteFlags(&access), limitFlags(&limits)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			if measured > 0 && !similar {
				return exit.Errorf(exit.Usage, "--samples goes with --mssim: pipefs info --mssim --samples %d %s", measured, args[0])
			}
			var l *mssim.Survey
			if similar {
				l = &mssim.Survey{Wanted: cmp.Or(measured, usuallyMeasured)}
			}
			// one that was interrupted while it measured has something to tell
			i, err := inspect(ctx, env, args[0], access, limits, l)
			if i == nil {
				return err
			}
			if asJSON {
				return errors.Join(terminal.PrintJSON(env.stdout, i), err)
			}
			i.Print(env.stdout)
			return err
		}),
	}
}

// inspect looks at every sample, and measures some if there is a survey to fill. If that is
// interrupted, it returns what it has and an error.
func inspect(ctx context.Context, env *environ, name string, access remote.Access, limits transcode.Limits, like *mssim.Survey) (*survey.Information, error) {
	s, err := openSource(ctx, env, mountd.SourceOptions{Path: name, Remote: access, Limits: limits})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	i, err := survey.Inspect(ctx, s, like, unlisted(env), env.stderr)
	if err != nil || like == nil {
		return i, err
	}
	return i, measure(ctx, env, s, like)
}

// usuallyMeasured is how many samples --mssim measures unless told otherwise: it
// decodes each of them ten times.
const usuallyMeasured = 100

// measure measures what the survey wants. Interrupted, it tells of those that it got to.
func measure(ctx context.Context, env *environ, s *mountd.Source, l *mssim.Survey) error {
	p, err := s.Registry.Parse(mountd.ScanView(mountd.MaxFidelity))
	if err != nil {
		return err
	}
	kind := p.Steps()[0].Kind
	bar := terminal.NewProgress(env.stderr, "measuring samples", -1)
	total := 0
	err = l.Measure(ctx, s.Registry, func(ctx context.Context, name string) (transcode.Split, error) { return s.Split(ctx, kind, name) },
		func(samples int) { total = samples; bar.SetTotal(samples) }, func() { bar.Add(1) })
	bar.Done()
	if err != nil {
		return exit.Errorf(exit.Interrupted, "interrupted after %d of %s", l.Measured, human.Plural(total, "sample", "samples"))
	}
	return nil
}
