package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/transcode"
)

// Views is what is to be measured.
func (b *openedBench) Views(ctx context.Context, shown *human.Progress) (views.Config, error) {
	c := b.c
	if c.Pipeline != "" {
		return b.splits(ctx, shown)
	}
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
	how := b.config(shown)
	how.Source, how.Mount, how.Options, how.Views, how.Prepared = b.source, b.Mount, b.options, named, b.prepared
	how.Cannot, how.Blind, how.Turned = b.reading.Cannot, c.Exec != "", b.reading.Turned > 0
	return how, nil
}

// splits is what is to be measured of a pipeline.
func (b *openedBench) splits(ctx context.Context, shown *human.Progress) (views.Config, error) {
	if b.plain == "" {
		return views.Config{}, usage.Errorf("--pipeline reads the files as they are: name a dataset that is a directory, or that of this store by --dataset")
	}
	p, err := views.ParsePipeline(b.registry, b.c.Pipeline)
	if err != nil {
		return views.Config{}, err
	}
	if err := b.noteRefusals(ctx, p.String()); err != nil {
		return views.Config{}, err
	}
	b.loader = loader.Builtin{Workers: b.c.Workers}
	how := b.config(shown)
	how.Source, how.Options, how.Roles, how.Pipeline = b.plain, b.roles, b.roles, p
	return how, nil
}

// config is what all comparisons have.
func (b *openedBench) config(shown *human.Progress) views.Config {
	c := b.c
	return views.Config{
		Program: b.program, Plain: b.plain, Archives: b.archives, Loader: b.loader, Workers: c.Workers, Compute: c.Compute,
		Files: b.files, Samples: c.Samples, Rounds: c.Rounds, Budget: c.Budget, Memory: c.Throttled.Memory, Work: b.work, Registry: b.registry,
		Progress: func(what string, done float64, left time.Duration) {
			if left > 0 {
				what += fmt.Sprintf(" (%.0f %%, about %s left)", 100*done, left.Round(time.Second))
			}
			shown.Show(what)
		},
	}
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
func (b *openedBench) openLoader(ctx context.Context) error {
	c := b.c
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Exec != "" {
		var err error
		b.loader, err = loader.NewCommand(c.Exec)
		return usage.With(err)
	}
	if c.Loader != builtinLoader {
		python, err := loader.FindTorch(ctx, c.Python)
		switch {
		case err == nil:
			b.loader, err = loader.NewTorch(ctx, python, c.Workers, c.Batch)
			return err
		case c.Loader == torchLoader || c.Python != "":
			return usage.With(err)
		}
		fmt.Fprintln(b.env.stderr, "pipefs: PyTorch is not installed: the loader is pipefs' own, which augments nothing (--loader builtin)")
	}
	b.loader = loader.Builtin{Workers: c.Workers}
	return nil
}
