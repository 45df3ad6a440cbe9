package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/report"
	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// tuneConfig is all that a tuning can be told.
type tuneConfig struct {
	tune.Config
	reader        string // of --for
	allow         []string
	apply, asJSON bool
	maxBytes      int64
	limits        transcode.Limits
}

// What --allow takes, and the views that it adds to the comparison. They do not
// have the pixels of the originals.
var allowed = map[string][]string{
	"scan":   {"scan2", "scan5"},
	"resize": {"resize256-bmp"},
}

func tuneCommand(env *environ) *cli.Command {
	c := &tuneConfig{Config: tune.Config{View: "bmp"}}
	return &cli.Command{
		Name: "tune", ArgsUsage: "STORE", Category: measuring, Usage: "find the fastest mix of raw pixels and encoded files",
		Description: "Raw pixels load the disk, and encoded files load the CPU; a mix of both can be faster than either. This measures loading and decoding apart, predicts the rate of eleven mixes, and measures the best ones through a mount: first with an empty page cache, and again from memory if the data fits. Samples are stored both ways during the measurement. Run this on the training machine, under the limits of the training.",
		UsageText: `pipefs tune /data/in.store
pipefs tune --apply --max-bytes 200GB /data/in.store      # store the best mix for MNT/auto
pipefs tune --allow scan,resize /data/in.store            # also views with other pixels`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "apply", Destination: &c.apply, Usage: "store the winner, and point MNT/auto at it"},
			opt("allow", "resize,scan", "", intoList(&c.allow), "also compare views with other pixels than the originals (repeatable)"),
			readerOption(&c.reader),
			opt("max-bytes", "SIZE", "the free space", intoSize(&c.maxBytes, 1), "limit the disk space of the mix"),
			&cli.BoolFlag{Name: "l3", Destination: &c.L3, Usage: "also try L3 for the encoded half of the mix; it decodes faster and takes more space"},
			opt("workers", "N", "one a core", intoInt(&c.Workers, 1, 4096), "read this many files at once, as the training does"),
			&cli.BoolFlag{Name: "json", Destination: &c.asJSON, Usage: "print all measurements as JSON"},
		}, rarely([]cli.Flag{
			opt("mix-format", "bmp|ppm", c.View, intoChoice(&c.View, "bmp", "ppm"), "choose the format of raw pixels"),
			opt("dataset", "DIR", "", place(intoString(&c.Dataset)), "name the dataset of the store, for originals that it does not hold"),
			opt("samples", "N", "400", intoInt(&c.Samples, 16, 1<<20), "measure at most this many samples"),
			opt("rounds", "N", "3", intoInt(&c.Rounds, 1, 1000), "set how often each pass is repeated"),
		}...), limitFlags(&c.limits)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if c.Store, err = remote.Place(args[0]); err != nil {
				return err
			}
			if remote.Is(c.Store) {
				return errWritten("pipefs tune", c.Store, "pack the dataset into a directory of this machine and tune that, or compare views with pipefs bench")
			}
			return runTune(ctx, env, c)
		}),
	}
}

func runTune(ctx context.Context, env *environ, c *tuneConfig) error {
	var others []string
	for _, list := range c.allow {
		for _, word := range strings.Split(list, ",") {
			views, ok := allowed[word]
			if !ok {
				return exit.Errorf(exit.Usage, "--allow: %w", notOneOf(word, []string{"resize", "scan"}))
			}
			others = append(others, views...)
		}
	}
	read := loader.NewReading(c.reader, nil, 0)
	others, err := c.readable(env, read, others)
	if err != nil {
		return err
	}
	if c.Program, err = os.Executable(); err != nil {
		return err
	}
	rebuilt, err := c.look(ctx, env, others)
	if err != nil {
		return err
	}
	free, err := cachedir.Free(c.Store)
	if err != nil {
		return err
	}
	c.MaxBytes = int64(float64(free) * 0.95)
	if c.maxBytes > 0 {
		c.MaxBytes = min(c.MaxBytes, c.maxBytes)
	}
	shown := human.NewPhases(env.stderr)
	c.Progress = shown.Show
	c.Open = func() (tune.Opened, error) { return c.open(ctx, env) }
	found, err := tune.Run(ctx, c.Config)
	shown.Done()
	if err != nil {
		return err
	}
	found.Rebuilt = rebuilt
	found.Assumed = read.Assumed(codecs.Default(c.limits), append(c.Others, c.View+"-"+transcode.Own))
	if c.asJSON {
		err = human.PrintJSON(env.stdout, found)
	} else {
		report.OfTuning(found).Text(env.stdout)
	}
	if err != nil || !c.apply {
		if err == nil && !c.asJSON {
			then := ""
			if found.Winner >= 0 {
				then = " With --apply this is stored, and MNT/auto leads to it."
			}
			fmt.Fprintf(env.stdout, "\nNothing was changed.%s\n", then)
		}
		return err
	}
	return applyTuning(ctx, env, c, found)
}

// source opens the store.
func (c *tuneConfig) source(ctx context.Context, env *environ) (*mountd.Source, error) {
	return openSource(ctx, env, mountd.SourceOptions{Path: c.Store, StoreOnly: true, Dataset: c.Dataset, Limits: c.limits})
}

// open opens the store with its fractions.
func (c *tuneConfig) open(ctx context.Context, env *environ) (tune.Opened, error) {
	s, err := c.source(ctx, env)
	if err != nil {
		return tune.Opened{}, err
	}
	shares := map[string]float64{}
	for _, f := range s.Store.Fractions() {
		shares[f.Spec()] = f.Share()
	}
	return tune.Opened{Server: s.Server, Registry: s.Registry, Shares: shares, Close: func() error { s.Close(); return nil }}, nil
}

// look chooses the views to compare: the originals and others, but for those that lack samples. It says what it costs
// that originals are rebuilt.
func (c *tuneConfig) look(ctx context.Context, env *environ, others []string) (rebuilt string, err error) {
	s, err := c.source(ctx, env)
	if err != nil {
		return "", err
	}
	defer s.Close()
	c.Others = append([]string{transcode.Original}, others...)
	g, err := s.Gaps(c.Others...)
	if err != nil {
		return "", err
	}
	for _, l := range g.All() {
		if slices.Contains(c.Others, l.View) {
			fmt.Fprintf(env.stderr, "pipefs: not compared: %v\n", l)
		}
	}
	c.Others = slices.DeleteFunc(c.Others, g.Lacks)
	return survey.Rebuilt(s)
}

// readable leaves out views that the loader of --for cannot read: MNT/auto shows them
// under the files' own names. Without raw pixels there is nothing to mix.
func (c *tuneConfig) readable(env *environ, read loader.Reading, others []string) (kept []string, err error) {
	r := codecs.Default(c.limits)
	for i, v := range append([]string{c.View}, others...) {
		p, err := r.Parse(v)
		if err != nil {
			return nil, err
		}
		switch why := read.Cannot(p.WithOwnNames()); {
		case why == "" && i > 0:
			kept = append(kept, v)
		case why == "":
		case i == 0 && c.View != "bmp" && (&survey.Peek{}).Suitable(r, read, "bmp-"+transcode.Own) != "":
			return nil, exit.Errorf(exit.Usage, "--mix-format %s: %s; bmp can be read", v, why)
		case i == 0:
			return nil, exit.Errorf(exit.Usage, "%s, and so there is no mix for it; pipefs bench --for %s compares what it reads", why, read.Name)
		default:
			fmt.Fprintf(env.stderr, "pipefs: left out: %s\n", why)
		}
	}
	return kept, nil
}

// applyTuning stores the winner, within --max-bytes.
func applyTuning(ctx context.Context, env *environ, c *tuneConfig, r *tune.Report) error {
	if r.Winner < 0 {
		return exit.Errorf(exit.System, "nothing was stored: %s", report.TuningNoise(r))
	}
	c.MaxBytes = c.maxBytes
	err := c.Apply(ctx, r)
	if err == nil && !c.asJSON {
		fmt.Fprintf(env.stdout, "\nStored. From the next mount on MNT/auto leads to %s.\n", mountd.WithOwnNames(codecs.Default(c.limits), r.Views[r.Winner].View))
	}
	return err
}
