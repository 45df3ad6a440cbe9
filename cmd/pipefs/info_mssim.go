package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/jedib0t/go-pretty/v6/table"

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

func printSurvey(w io.Writer, l *mssim.Survey) {
	fmt.Fprintf(w, "\nMS-SSIM against all scans, measured on %d of %s that can be:\n", l.Measured, human.Plural(l.Measurable, "sample", "samples"))
	if l.Measured > 0 {
		t := terminal.Table(w, "view", "mean", "lowest 5 %", fmt.Sprintf("≥ %.2f", l.Mark), "bytes a sample", "of all bytes")
		for _, row := range l.Scans {
			t.AppendRow(table.Row{row.View, fmt.Sprintf("%.4f", row.Mean), fmt.Sprintf("%.4f", row.Low),
				// 100 % is for all of them alone
				fmt.Sprintf("%.0f %%", math.Floor(100*row.Reaching+1e-9)), human.Size(int64(row.Bytes)), human.Percent(row.ShareRead)})
		}
		terminal.Right(t, 2, 3, 4, 5, 6)
		t.Render()
		for _, row := range l.Scans {
			if row.View == l.Lowest {
				fmt.Fprintln(w, terminal.Wrap(fmt.Sprintf("%s is the lowest scan at or above %.2f: MNT/%s reads %s of the bytes", row.View, l.Mark, row.View, human.Percent(row.ShareRead)), 0))
			}
		}
		terminal.Note(w, "%.2f is the PCR paper's mark for scans that train as well as all of them; your model may want another, and pipefs fidelity MNT K tries one. One sample in twenty is at or below the lowest 5 %%", l.Mark)
	}
	for _, out := range l.LeftOut {
		terminal.Note(w, "%s not measured, %s (%s)", human.Plural(out.Samples, "sample", "samples"), out.Reason, out.Example)
	}
}
