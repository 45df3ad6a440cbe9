package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// tuneConfig is all that a tuning can be told.
type tuneConfig struct {
	store, dataset string // absolute
	format         string
	reader         string // of --for
	allow          []string
	l3             bool
	apply          bool
	asJSON         bool
	maxBytes       int64
	workers        int
	samples        int
	rounds         int
	limits         transcode.Limits
}

// What --allow takes, and the views that it adds to the comparison. They do not
// have the pixels of the originals.
var allowed = map[string][]string{
	"scan":   {"scan2", "scan5"},
	"resize": {"resize256-bmp"},
}

func tuneCommand(env *environ) *cli.Command {
	c := &tuneConfig{format: "bmp", rounds: 3, samples: 400}
	return &cli.Command{
		Name: "tune", ArgsUsage: "STORE", Category: measuring, Usage: "find the fastest mix of raw pixels and encoded files",
		Description: "Reading raw pixels loads the disk, decoding loads the processor; a mix of both can beat either alone. Some samples are stored both ways for as long as it takes; loading and decoding are measured apart, which predicts the rate of eleven mixes, and the best ones are measured together, through a mount, with nothing in the page cache, as the first epoch reads. What fits in memory is measured a second time, as later epochs read it, and that decides. The loader is one of pipefs that decodes as Pillow does. What is not materialized is decoded by the mount (bmp/) or by the loader (stored-bmp/): both are measured.\n" +
			"Run it on the machine, and under the limits, of the training.",
		UsageText: `# measure, and print what was found
pipefs tune /data/in.store
# store the best mix that 200 GB have room for, and point MNT/auto at it from the next mount on
pipefs tune --apply --max-bytes 200GB /data/in.store
# compare views that do not show the same pixels, too
pipefs tune --allow scan,resize /data/in.store`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "apply", Destination: &c.apply, Usage: "store what won (pipefs materialize), and have MNT/auto lead to it"},
			opt("allow", "resize,scan", "", intoList(&c.allow), "also compare views whose pixels are not those of the originals. May be repeated"),
			readerOption(&c.reader),
			opt("max-bytes", "SIZE", "what the disk has room for", intoSize(&c.maxBytes, 1), "how much the mix may take on disk"),
			&cli.BoolFlag{Name: "l3", Destination: &c.l3, Usage: "also try L3 as the encoded half of the mix: it takes more disk than JPEG, about as much as PNG, and decodes several times as fast as either"},
			opt("workers", "N", "one a core", intoInt(&c.workers, 1, 4096), "files that the loader reads at once; that of the training"),
			&cli.BoolFlag{Name: "json", Destination: &c.asJSON, Usage: "print all that was measured as JSON"},
		}, rarely([]cli.Flag{
			opt("mix-format", "bmp|ppm", c.format, intoChoice(&c.format, "bmp", "ppm"), "how pixels are materialized"),
			opt("dataset", "DIR", "", place(intoString(&c.dataset)), "the dataset, for originals that the store cannot give back"),
			opt("samples", "N", "400", intoInt(&c.samples, 16, 1<<20), "how many samples are measured at most"),
			opt("rounds", "N", "3", intoInt(&c.rounds, 1, 1000), "how often each pass is repeated; from 3 on, short passes are repeated more often at the end, as a verdict needs"),
		}...), limitOptions(&c.limits)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if c.store, err = remote.Place(args[0]); err != nil {
				return err
			}
			if remote.Is(c.store) {
				return errWritten("pipefs tune", c.store, "pack the dataset into a directory of this machine and tune that, or compare views with pipefs bench")
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
	program, err := os.Executable()
	if err != nil {
		return err
	}
	others, rebuilt, err := c.look(ctx, env, others)
	if err != nil {
		return err
	}
	free, err := cachedir.Free(c.store)
	if err != nil {
		return err
	}
	budget := int64(float64(free) * 0.95)
	if c.maxBytes > 0 {
		budget = min(budget, c.maxBytes)
	}
	shown := newPhases(env)
	how := tune.Config{
		Program: program, Store: c.store, Dataset: c.dataset, View: c.format, Others: others, L3: c.l3, MaxBytes: budget,
		Workers: c.workers, Rounds: c.rounds, Samples: c.samples, Progress: shown.show,
		Open: func() (tune.Opened, error) { return c.open(ctx, env) },
	}
	report, err := tune.Run(ctx, how)
	shown.done()
	if err != nil {
		return err
	}
	report.Rebuilt = rebuilt
	report.Assumed = read.Assumed(codecs.Default(c.limits), append(others, c.format+"-"+transcode.Own))
	if c.asJSON {
		err = printJSON(env.stdout, report)
	} else {
		printTuning(env.stdout, report)
	}
	if err != nil || !c.apply {
		if err == nil && !c.asJSON {
			then := ""
			if report.Winner >= 0 {
				then = " With --apply this is stored, and MNT/auto leads to it."
			}
			fmt.Fprintf(env.stdout, "\nNothing was changed.%s\n", then)
		}
		return err
	}
	return applyTuning(ctx, env, c, how, report)
}

// open opens the store with its fractions.
func (c *tuneConfig) open(ctx context.Context, env *environ) (tune.Opened, error) {
	s, err := openSource(ctx, env, mountd.SourceOptions{Path: c.store, StoreOnly: true, Dataset: c.dataset, Limits: c.limits})
	if err != nil {
		return tune.Opened{}, err
	}
	shares := map[string]float64{}
	for _, f := range s.Store.Fractions() {
		shares[f.Spec()] = f.Share()
	}
	return tune.Opened{Server: s.Server, Registry: s.Registry, Shares: shares, Close: func() error { s.Close(); return nil }}, nil
}

// look leaves out the views that cannot be measured, because they lack samples, and says
// what it costs that originals are rebuilt.
func (c *tuneConfig) look(ctx context.Context, env *environ, views []string) (kept []string, told string, err error) {
	s, err := openSource(ctx, env, mountd.SourceOptions{Path: c.store, StoreOnly: true, Dataset: c.dataset, Limits: c.limits})
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	if told, err = rebuilt(s); err != nil {
		return nil, "", err
	}
	g, err := s.Gaps(views...)
	if err != nil {
		return nil, "", err
	}
	for _, l := range g.All() {
		if slices.Contains(views, l.View) {
			fmt.Fprintf(env.stderr, "pipefs: not compared: %v\n", l)
		}
	}
	return slices.DeleteFunc(views, g.Lacks), told, nil
}

// readable leaves out views that the loader of --for cannot read: MNT/auto shows them
// under the files' own names. Without raw pixels there is nothing to mix.
func (c *tuneConfig) readable(env *environ, read loader.Reading, others []string) (kept []string, err error) {
	r := codecs.Default(c.limits)
	for i, v := range append([]string{c.format}, others...) {
		p, err := r.Parse(v)
		if err != nil {
			return nil, err
		}
		switch why := read.Cannot(p.WithOwnNames()); {
		case why == "" && i > 0:
			kept = append(kept, v)
		case why == "":
		case i == 0 && c.format != "bmp" && (&datasetPeek{}).suitable(r, read, "bmp-"+transcode.Own) != "":
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
func applyTuning(ctx context.Context, env *environ, c *tuneConfig, how tune.Config, r *tune.Report) error {
	if r.Winner < 0 {
		return exit.Errorf(exit.System, "nothing was stored: %s", tuningNoise(r))
	}
	how.MaxBytes = c.maxBytes
	err := how.Apply(ctx, r)
	if err == nil && !c.asJSON {
		fmt.Fprintf(env.stdout, "\nStored. From the next mount on MNT/auto leads to %s.\n", mountd.WithOwnNames(codecs.Default(c.limits), r.Views[r.Winner].View))
	}
	return err
}
