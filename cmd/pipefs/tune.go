package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/pipefs/pipefs/bench/page"
	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
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
	html           string
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

func tuneCommand(env *environ) *command {
	c := &tuneConfig{format: "bmp", rounds: 3, samples: 400}
	return &command{
		name: "tune", args: "STORE", min: 1, max: 1,
		brief: "find the mix of raw pixels and encoded files that loads fastest here",
		about: "Reading raw pixels loads the disk, decoding loads the processor; a mix of both can beat either alone. Some samples are stored both ways for as long as it takes; loading and decoding are measured apart, which predicts the rate of eleven mixes, and the best ones are measured together, through a mount, with nothing in the page cache, as the first epoch reads. What fits in memory is measured a second time, as later epochs read it, and that decides. The loader is one of pipefs that decodes as Pillow does. What is not materialized is decoded by the mount (bmp/) or by the loader (stored-bmp/): both are measured.\n" +
			"Run it on the machine, and under the limits, of the training.",
		examples: []example{
			{"pipefs tune /data/in.store", "measure, and print what was found"},
			{"pipefs tune --apply --max-bytes 200GB /data/in.store", "store the best mix that 200 GB have room for, and point MNT/auto at it from the next mount on"},
			{"pipefs tune --allow scan,resize /data/in.store", "compare views that do not show the same pixels, too"},
		},
		words: []string{"store", "view", "mix"},
		options: append([]*option{
			{name: "apply", set: intoBool(&c.apply), help: "store what won (pipefs materialize), and have MNT/auto lead to it"},
			{name: "allow", arg: "resize,scan", set: intoList(&c.allow), help: "also compare views whose pixels are not those of the originals. May be repeated"},
			{name: "l3", set: intoBool(&c.l3), help: "also try L3 as the encoded half of the mix: it takes more disk than JPEG, about as much as PNG, and decodes several times as fast as either"},
			{name: "mix-format", arg: "bmp|ppm", def: c.format, set: intoChoice(&c.format, "bmp", "ppm"), help: "how pixels are materialized"},
			readerOption(&c.reader),
			{name: "max-bytes", arg: "SIZE", def: "what the disk has room for", set: intoSize(&c.maxBytes, 1), help: "how much the mix may take on disk"},
			{name: "dataset", arg: "DIR", path: true, set: intoString(&c.dataset), help: "the dataset, for originals that the store cannot give back"},
			{name: "workers", arg: "N", def: "one a core", set: intoInt(&c.workers, 1, 4096), help: "files that the loader reads at once; that of the training"},
			{name: "samples", arg: "N", def: "400", set: intoInt(&c.samples, 16, 1<<20), help: "how many samples are measured at most"},
			{name: "rounds", arg: "N", def: "3", set: intoInt(&c.rounds, 1, 1000), help: "how often each pass is repeated; from 3 on, short passes are repeated more often at the end, as a verdict needs"},
			{name: "json", set: intoBool(&c.asJSON), help: "print all that was measured as JSON"},
			{name: "html", arg: "FILE", path: true, set: intoString(&c.html), help: "write a page with tables and the curve of the ratios that needs nothing else"},
		}, limitOptions(&c.limits)...),
		run: func(ctx context.Context, args []string) error {
			var err error
			if c.store, err = filepath.Abs(args[0]); err != nil {
				return err
			}
			return runTune(ctx, env, c)
		},
	}
}

func runTune(ctx context.Context, env *environ, c *tuneConfig) error {
	var others []string
	for _, list := range c.allow {
		for _, word := range strings.Split(list, ",") {
			views, ok := allowed[word]
			if !ok {
				return exit.Errorf(exit.Usage, "--allow %s: there are resize and scan", word)
			}
			others = append(others, views...)
		}
	}
	read := newReading(c.reader, nil)
	others, err := c.readable(env, read, others)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := statSource(c.store); err != nil {
		return exit.With(exit.System, err)
	}
	others, rebuilt, err := c.look(env, others)
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
	report, err := tune.Run(ctx, tune.Config{
		Program: program, Store: c.store, Dataset: c.dataset, View: c.format, Others: others, L3: c.l3, MaxBytes: budget,
		Workers: c.workers, Rounds: c.rounds, Samples: c.samples, Progress: shown.show,
		Open: func() (tune.Opened, error) { return openTuned(env, c) },
		Materialize: func(ctx context.Context, spec string, share float64) error {
			return materializeApart(ctx, program, c, spec, share, 0)
		},
	})
	shown.done()
	if err != nil {
		return err
	}
	report.Rebuilt = rebuilt
	report.Assumed = read.assumed(codecs.Default(c.limits), append(others, c.format+"-"+transcode.Own))
	if c.html != "" {
		about, sections, err := tuningPage(c, report)
		if err != nil {
			return err
		}
		if err := writeWhole(c.html, func(w io.Writer) error { return page.Write(w, about, sections...) }); err != nil {
			return err
		}
	}
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
	return applyTuning(ctx, env, c, program, report)
}

// look leaves out the views that cannot be measured, because they lack samples, and says
// what it costs that originals are rebuilt.
func (c *tuneConfig) look(env *environ, views []string) (kept []string, rebuilt string, err error) {
	s, err := openStoreSource(env, c.store)
	if err != nil || c.dataset != "" {
		return views, "", err
	}
	defer s.close()
	if rebuilt, err = s.rebuilt(env, c.limits); err != nil {
		return nil, "", err
	}
	g, err := s.gaps(env, c.limits, views...)
	if err != nil {
		return nil, "", err
	}
	for _, l := range g.All() {
		if slices.Contains(views, l.View) {
			fmt.Fprintf(env.stderr, "pipefs: not compared: %v\n", l)
		}
	}
	return slices.DeleteFunc(views, g.Lacks), rebuilt, nil
}

// readable leaves out views that the loader of --for cannot read: MNT/auto shows them
// under the files' own names. Without raw pixels there is nothing to mix.
func (c *tuneConfig) readable(env *environ, read reading, others []string) (kept []string, err error) {
	r := codecs.Default(c.limits)
	for i, v := range append([]string{c.format}, others...) {
		p, err := r.Parse(v)
		if err != nil {
			return nil, err
		}
		switch why := read.cannot(p.WithOwnNames()); {
		case why == "" && i > 0:
			kept = append(kept, v)
		case why == "":
		case i == 0 && c.format != "bmp" && read.first(r, "bmp-"+transcode.Own) != "":
			return nil, exit.Errorf(exit.Usage, "--mix-format %s: %s; bmp can be read", v, why)
		case i == 0:
			return nil, exit.Errorf(exit.Usage, "%s, and so there is no mix for it; pipefs bench --for %s compares what it reads", why, read.Name)
		default:
			fmt.Fprintf(env.stderr, "pipefs: left out: %s\n", why)
		}
	}
	return kept, nil
}

// applyTuning stores the winner.
func applyTuning(ctx context.Context, env *environ, c *tuneConfig, program string, r *tune.Report) error {
	if r.Winner < 0 {
		return exit.Errorf(exit.System, "nothing was stored: %s", tuningNoise(r))
	}
	won := r.Views[r.Winner]
	if won.Encoded != "" {
		if err := materializeApart(ctx, program, c, c.format, won.Share, c.maxBytes); err != nil {
			return err
		}
		if won.Encoded == "l3" {
			left := c.maxBytes
			if left > 0 {
				left = max(1, left-int64(won.Share*float64(r.Materialized)))
			}
			if err := materializeApart(ctx, program, c, "l3", 1, left); err != nil {
				return err
			}
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	err = store.WriteAuto(c.store, store.Auto{View: won.View, Share: won.Share, Host: host, Time: time.Now().UTC().Truncate(time.Second)})
	if err == nil && !c.asJSON {
		fmt.Fprintf(env.stdout, "\nStored. From the next mount on MNT/auto leads to %s.\n", mountd.WithOwnNames(codecs.Default(c.limits), won.View))
	}
	return err
}

func printTuning(w io.Writer, r *tune.Report) {
	for _, p := range r.Pairs {
		fmt.Fprintf(w, "Raw pixels and %s, %s/: loading takes %s materialized and %s encoded, decoding %s a sample\n",
			namedPair(&p), p.View, formatMillis(p.Costs.LoadRaw), formatMillis(p.Costs.LoadEncoded), formatMillis(p.Costs.Decode))
		t := newTable(w, "materialized", "on disk", "loading/s", "decoding/s", "predicted/s", "measured/s", "CPU a sample")
		for i := range p.Rows {
			row := &p.Rows[i]
			measured, cpu := "", ""
			if len(row.Rates) > 0 {
				measured, cpu = formatRate(row.Rate()), formatMillis(row.CPU)
				if i == p.Best {
					measured += " *"
				}
			}
			t.AppendRow(table.Row{fmt.Sprintf("%.0f %%", 100*row.Share), formatSize(int64(row.Share * float64(r.Materialized))),
				formatRate(row.Load), formatRate(row.Decode), formatRate(row.Predicted()), measured, cpu})
		}
		alignRight(t, 7)
		t.Render()
		if p.Most < mixer.Ratios-1 {
			fmt.Fprintf(w, "There is no room on the disk for more than %d %%.\n", 10*p.Most)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Side by side, in samples/s; the page cache has room for %s, of which half is counted on\n", formatSize(r.Memory))
	t := newTable(w, "view", "materialized", "bytes", "first epoch", "later epochs", "CPU a sample, first")
	for i := range r.Views {
		row := &r.Views[i]
		mark, mix := "", ""
		if i == r.Winner {
			mark = " *"
		}
		if row.Encoded != "" {
			mix = fmt.Sprintf("%.0f %%, rest from %s", 100*row.Share, named(row.Encoded))
		}
		first, later := formatRate(row.Rate()), "as the first"
		if row.Fits {
			later = formatRate(row.LaterRate()) + mark
		} else {
			first += mark
		}
		t.AppendRow(table.Row{row.View, mix, formatSize(row.Bytes), first, later, formatMillis(row.CPU)})
	}
	alignRight(t, 6)
	t.Render()
	if r.Assumed != "" {
		fmt.Fprintln(w, wrap("assumed: "+r.Assumed, 0))
	}
	if r.Rebuilt != "" {
		fmt.Fprintln(w, wrap(r.Rebuilt, 0))
	}
	fmt.Fprintln(w, tuningVerdict(r))
}

// tuningNoise says why there is no winner, and what to do.
func tuningNoise(r *tune.Report) string {
	return fmt.Sprintf("too noisy to tell: %s; run again with --rounds %d, or when the machine is quiet", r.Noise, max(12, 4*r.Rounds))
}

// tuningVerdict says what won, and by how much.
func tuningVerdict(r *tune.Report) string {
	if r.Winner < 0 {
		return "T" + tuningNoise(r)[1:] + "."
	}
	won := r.Views[r.Winner]
	if won.View == transcode.Original {
		return "The originals are as fast as anything else here: nothing is worth storing."
	}
	epochs := ""
	if won.Fits {
		epochs = " from the second epoch on"
	}
	s := fmt.Sprintf("%s/ is the fastest%s (the store does not have the originals)", won.View, epochs)
	if gain := r.Gain(); gain > 0 {
		s = fmt.Sprintf("%s/ is %.2f times as fast as original/%s", won.View, gain, epochs)
	}
	if won.Encoded != "" {
		s += fmt.Sprintf(", and takes %s on disk", formatSize(int64(won.Share*float64(r.Materialized))))
		if won.Encoded == "l3" {
			s += " beside L3 of all samples"
		}
	}
	return s + "."
}

// namedPair is what is mixed with raw pixels, in words.
func namedPair(p *tune.Pair) string {
	by := "the mount"
	if p.ByLoader() {
		by = "the loader"
	}
	return named(p.Encoded) + ", decoded by " + by
}

// named is an encoded representation in words.
func named(encoded string) string {
	if encoded == "source" {
		return "the stored files"
	}
	return "L3"
}

func formatMillis(seconds float64) string { return fmt.Sprintf("%.2f ms", 1000*seconds) }

func formatRate(r float64) string {
	switch {
	case math.IsInf(r, 1):
		return "∞"
	case r < 100:
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.0f", r)
}

func alignRight(t table.Writer, columns int) {
	var c []table.ColumnConfig
	for i := 2; i <= columns; i++ {
		c = append(c, table.ColumnConfig{Number: i, Align: text.AlignRight})
	}
	t.SetColumnConfigs(c)
}
