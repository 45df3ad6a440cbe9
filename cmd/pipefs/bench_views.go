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

// choose finds out what is to be measured, and starts the loader.
func (c *benchConfig) choose(ctx context.Context, shown *human.Progress) error {
	c.Memory = c.throttled.Memory
	c.Progress = func(what string, done float64, left time.Duration) {
		if left > 0 {
			what += fmt.Sprintf(" (%.0f %%, about %s left)", 100*done, left.Round(time.Second))
		}
		shown.Show(what)
	}
	if c.pipeline != "" {
		return c.choosePipeline(ctx)
	}
	if c.Views == nil {
		c.tellGaps(c.usual)
		c.Views = slices.DeleteFunc(c.usual, c.gaps.Lacks)
		c.assumed = c.reading.Assumed(c.Registry, c.Views)
	} else {
		c.tellGaps(c.Views) // they are measured as they are
	}
	for _, v := range c.Views {
		switch v {
		case "mix", "auto", "current": // links of a mount: where they lead is seen there
		default:
			p, err := c.Registry.ParsePath(v)
			switch _, drawn := p.DrawOf(""); {
			case err != nil:
			case drawn:
				err = usage.Errorf("--views %s: write %s; each pass reads an epoch of its own", v, p)
			default:
				if why := c.reading.Cannot(p); why != "" {
					err = usage.Errorf("--views %s: %s", p, why)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	if err := c.noteRefusals(ctx, c.Views...); err != nil {
		return err
	}
	shown.Show("starting the loader")
	c.Cannot, c.Blind, c.Turned = c.reading.Cannot, c.exec != "", c.reading.Turned > 0
	return c.openLoader(ctx)
}

// choosePipeline has the splits of a pipeline measured.
func (c *benchConfig) choosePipeline(ctx context.Context) (err error) {
	if c.Plain == "" {
		return usage.Errorf("--pipeline reads the files as they are: name a dataset that is a directory, or that of this store by --dataset")
	}
	if c.Pipeline, err = views.ParsePipeline(c.Registry, c.pipeline); err != nil {
		return err
	}
	c.Loader = loader.Builtin{Workers: c.Workers}
	err = c.noteRefusals(ctx, c.Pipeline.String())
	c.Source, c.Prepared, c.Options, c.Roles = c.Plain, false, c.roles, c.roles
	return err
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
func (c *benchConfig) openLoader(ctx context.Context) (err error) {
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.exec != "" { // check has seen that it says where the directory goes
		c.Loader, err = loader.NewCommand(c.exec)
		return err
	}
	if c.loader != builtinLoader {
		python, err := loader.FindTorch(ctx, c.python)
		switch {
		case err == nil:
			t, err := loader.NewTorch(ctx, python, c.Workers, c.batch)
			if err == nil {
				c.Loader = t
			}
			return err
		case c.loader == torchLoader || c.python != "":
			return usage.With(err)
		}
		fmt.Fprintln(c.env.stderr, "pipefs: PyTorch is not installed: the loader is pipefs' own, which augments nothing (--loader builtin)")
	}
	c.Loader = loader.Builtin{Workers: c.Workers}
	return nil
}
