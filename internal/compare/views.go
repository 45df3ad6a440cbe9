package compare

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/strategy"
	"github.com/pipefs/pipefs/bench/throttle"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
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

// Config is all that a comparison can be told.
type Config struct {
	Source, Dataset string // as given; absolute
	Remote          remote.Access
	Views           []string
	Loader          string
	Exec            string
	Reader          string // of --for
	Python          string
	Workers, Batch  int
	Compute         loader.Compute
	Controls        bool
	Samples, Rounds int
	Budget          time.Duration
	Throttled       throttle.Limits
	Work            string
	Roles           transcode.Roles
	Limits          transcode.Limits

	// strategies
	Pipeline     string
	Grey         bool
	Compressions []string
	Caches       []string
	Parallel     []int

	Stderr     io.Writer
	Note       func(format string, args ...any)
	Unlisted   func(error) // is told of directories that cannot be listed
	OpenSource func(context.Context, mountd.SourceOptions) (*mountd.Source, error)
	Stats      func(ctx context.Context, mnt string) (*control.Stats, error)
}

// The loaders that there are.
const (
	AutoLoader    = "auto"
	BuiltinLoader = "builtin"
	TorchLoader   = "torch"
)
