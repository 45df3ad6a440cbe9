package compare

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/transcode"
)

// Views is what is to be measured.
func (b *Bench) Views(ctx context.Context, shown *terminal.Phases) (views.Config, error) {
	c := b.c
	named := c.Views
	if named == nil {
		b.tellGaps(b.usual)
		named = slices.DeleteFunc(b.usual, b.gaps.Lacks)
		b.Assumed = b.reading.Assumed(b.registry, named)
	} else {
		b.tellGaps(named) // they are measured as they are
	}
	for _, v := range named {
		switch v {
		case "mix", "auto", "current": // links of a mount: where they lead is seen there
		default:
			p, err := b.registry.ParsePath(v)
			switch _, drawn := p.DrawOf(""); {
			case err != nil:
			case drawn:
				err = usage.Errorf("--views %s: write %s; each pass reads an epoch of its own", v, p)
			default:
				if why := b.reading.Cannot(p); why != "" {
					err = usage.Errorf("--views %s: %s", p, why)
				}
			}
			if err != nil {
				return views.Config{}, err
			}
		}
	}
	if err := b.noteRefusals(ctx, named...); err != nil {
		return views.Config{}, err
	}
	shown.Show("starting the loader")
	if err := b.openLoader(ctx); err != nil {
		return views.Config{}, err
	}
	return views.Config{
		Program: b.program, Source: b.source, Mount: b.Mount, Plain: b.plain, Options: b.options, Views: named, Controls: c.Controls, Cannot: b.reading.Cannot,
		Loader: b.loader, Blind: c.Exec != "", Workers: c.Workers, Compute: c.Compute,
		Files: b.files, Prepared: b.prepared, Samples: c.Samples, Rounds: c.Rounds, Budget: c.Budget, Memory: c.Throttled.Memory, Work: b.work, Registry: b.registry, Turned: b.reading.Turned > 0,
		Progress: func(what string, done float64, left time.Duration) {
			if left > 0 {
				what += fmt.Sprintf(" (%.0f %%, about %s left)", 100*done, left.Round(time.Second))
			}
			shown.Show(what)
		},
	}, nil
}

// compared are the views that are compared if none are named: of each line the first
// that suits the loader and the dataset. Mixed are views that a store has materialized.
func compared(registry *transcode.Registry, k *survey.Peek, r loader.Reading, mixed []string) []string {
	lines := [][]string{{transcode.Original}, survey.ExactViews, survey.ResizedViews}
	for _, v := range mixed {
		lines = append(lines, []string{v})
	}
	if slices.Contains(r.Extensions, ".jpg") || slices.Contains(r.Extensions, ".jpeg") {
		lines = append(lines, []string{"scan2"}, []string{"scan5"})
	}
	var usual []string
	for _, line := range lines {
		if v := k.Suitable(registry, r, line...); v != "" {
			usual = append(usual, v)
		}
	}
	return usual
}

// openLoader starts who reads.
func (b *Bench) openLoader(ctx context.Context) error {
	c := b.c
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Exec != "" {
		var err error
		b.loader, err = loader.NewCommand(c.Exec)
		return usage.With(err)
	}
	if c.Loader != BuiltinLoader {
		python, err := loader.FindTorch(ctx, c.Python)
		switch {
		case err == nil:
			b.loader, err = loader.NewTorch(ctx, python, c.Workers, c.Batch)
			return err
		case c.Loader == TorchLoader || c.Python != "":
			return usage.With(err)
		}
		fmt.Fprintln(b.c.Stderr, "pipefs: PyTorch is not installed: the loader is pipefs' own, which augments nothing (--loader builtin)")
	}
	b.loader = loader.Builtin{Workers: c.Workers}
	if b.plain != "" {
		b.Calibrate = func(ctx context.Context) (map[string]float64, error) {
			paths := make([]string, 0, calibrated)
			for _, name := range loader.Evenly(b.files, calibrated) {
				paths = append(paths, filepath.Join(b.plain, name))
			}
			return loader.Calibrate(ctx, c.Python, paths)
		}
	}
	return nil
}

// calibrated is how many samples may be used to compare the loader with Pillow.
const calibrated = 64
