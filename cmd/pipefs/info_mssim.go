package main

import (
	"context"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/transcode"
)

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
