package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/report"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
)

func benchCommand(env *environ) *cli.Command {
	c := &benchConfig{env: env, note: noter(env.stderr), loader: autoLoader}
	c.Budget = 75 * time.Second
	return &cli.Command{
		Name: "bench", ArgsUsage: "DATASET|STORE|MNT", Category: measuring, Usage: "measure views on this machine, and recommend one",
		Description: "Reads the same samples of each view as a training does, in turns, and prints the rate from the disk and from memory, the bytes read, and the CPU time of loader and daemon. The same files without pipefs are measured beside them. The first lines recommend a view with the same pixels as the original, and the best view with other pixels.\n" +
			"The views are mounted for the measurement, and unmounted afterwards. A mount that exists already is measured as it is. Run this on the training machine, under the limits of the training.\n" +
			"--pipeline compares where to split a pipeline into stored and computed steps instead (PRESTO, SIGMOD 2022).",
		UsageText: `pipefs bench ~/imagenet
pipefs bench ~/imagenet --views original,scan5 --throttle 50MB/s --html report.html
pipefs bench ~/imagenet --exec 'python train.py --epochs 1 --data {view}'
pipefs bench ~/imagenet --pipeline resize256-center-npy`,
		Flags: slices.Concat([]cli.Flag{
			opt("views", "VIEW,…", "original, bmp-own, resize256-bmp-own; of JPEG files also scan2, scan5", intoWords(&c.Views), "compare these views (repeatable)"),
			readerOption(&c.reader),
			opt("loader", "auto|builtin|torch", c.loader, intoChoice(&c.loader, autoLoader, builtinLoader, torchLoader), "choose the loader: auto uses PyTorch if it is installed"),
			opt("exec", "COMMAND", "", intoString(&c.exec), "run your own loader by sh; {view} is the directory, and the last line holds samples/s"),
			opt("compute", "TIME/BATCH", "", intoCompute(&c.Compute), "emulate an accelerator, such as 0.224s/400, and report how busy it is"),
			opt("time", "DURATION", c.Budget.String(), intoDuration(&c.Budget), "measure for about this long"),
			opt("throttle", "RATE", "", intoRate(&c.throttled.BytesPerSecond), "limit the disk, such as 50MB/s: by a cgroup (root), otherwise in the daemon"),
			opt("html", "FILE", "", place(intoString(&c.html)), "write a page with tables and plots"),
			&cli.BoolFlag{Name: "json", Destination: &c.asJSON, Usage: "print all measurements as JSON"},
		}, rarely([]cli.Flag{
			opt("python", "FILE", "$PYTHON, python3", intoString(&c.python), "use this interpreter for PyTorch"),
			opt("workers", "N", "one a core", intoInt(&c.Workers, 1, 4096), "set the number of workers of the loader"),
			opt("batch", "N", "that of --compute, or 16", intoInt(&c.batch, 1, 1<<20), "set the batch size of PyTorch"),
			opt("samples", "N", "as many as there is time for", intoInt(&c.Samples, 1, 1<<30), "limit the samples of an epoch; they are spread evenly"),
			opt("rounds", "N", "as many as there is time for, at least 6", intoInt(&c.Rounds, 1, 1000), "set how often each view is measured"),
			opt("iops", "N", "", intoInt(&c.throttled.ReadsPerSecond, 1, 1<<40), "limit the reads per second, as --throttle does"),
			opt("memory", "SIZE", "", intoSize(&c.throttled.Memory, 1), "limit the memory of daemon, loader and page cache together, by a cgroup (root)"),
			opt("dataset", "DIR", "", place(intoString(&c.from.Dataset)), "name the dataset of a STORE, for missing originals and for the comparison with plain files"),
			classesFlag(&c.from.Classes),
			opt("work", "DIR", "a directory in ~/.cache/pipefs", place(intoString(&c.parent)), "keep prepared data here; choose the disk to measure"),
			opt("pipeline", "VIEW", "", intoString(&c.pipeline), "compare what to store of this pipeline, and what to compute at each read"),
		}...), rarely(roleFlags(&c.from.Roles)...), remoteFlags(&c.from.Remote), limitFlags(&c.from.Limits)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			c.from.Path = args[0]
			if err := c.check(); err != nil {
				return err
			}
			return c.run(ctx)
		}),
	}
}

// benchConfig is a comparison: what it was told, and what was found out for it.
type benchConfig struct {
	views.Config
	env            *environ
	note           func(format string, args ...any)
	from           mountd.SourceOptions // of the source; the path as given
	loader, exec   string
	reader, python string // of --for; the interpreter
	batch          int
	throttled      cgroup.Limits
	parent         string // of Work
	pipeline       string // whose splits are compared, instead of views
	html           string
	asJSON         bool

	group   *cgroup.Group
	gaps    *mountd.Gaps // of the views that may be compared
	reading loader.Reading
	usual   []string // views that are compared if none are named
	roles   []string // options of mounts that say what samples are
	limited []string // how disk and memory are limited
	assumed string   // for which loaders the views are
	rebuilt string   // what it costs that originals are rebuilt
}

// The loaders that there are.
const (
	autoLoader    = "auto"
	builtinLoader = "builtin"
	torchLoader   = "torch"
)

// check refuses what does not go together.
func (c *benchConfig) check() error {
	switch {
	case c.exec != "" && !strings.Contains(c.exec, "{view}"):
		return exit.Errorf(exit.Usage, "--exec %q: write {view} where the loader is to get the directory", c.exec)
	case c.exec != "" && (c.Samples != 0 || c.Compute.Batch != 0):
		return exit.Errorf(exit.Usage, "--samples and --compute are for the loaders of pipefs; with --exec the loader reads what it reads")
	case c.exec != "" && c.loader != autoLoader:
		return exit.Errorf(exit.Usage, "--exec is a loader of its own: leave out --loader %s", c.loader)
	case c.batch != 0 && (c.exec != "" || c.pipeline != "" || c.loader == builtinLoader):
		return exit.Errorf(exit.Usage, "--batch is for the loader of PyTorch (--loader torch); leave it out")
	case c.pipeline != "" && (c.Views != nil || c.exec != "" || c.Compute.Batch != 0 || c.loader != autoLoader || c.reader != "" || c.from.Classes != ""):
		return exit.Errorf(exit.Usage, "--pipeline compares splits, read by the loader of pipefs: --views, --for, --loader, --exec, --compute and --classes do not go with it")
	}
	return checkPage(c.html)
}

// run measures views, or the splits of a pipeline.
func (c *benchConfig) run(ctx context.Context) (err error) {
	// Who reads the table may stop reading, as head does: that is no reason to leave
	// mounts and cgroups behind. Ignoring the signal instead would pass on to loaders.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	if err := c.find(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.makeWork(); err != nil {
		return err
	}
	if err := c.limit(); err != nil {
		return err
	}
	shown := human.NewPhases(c.env.stderr)
	defer shown.Done()
	if err := c.choose(ctx, shown); err != nil {
		return err
	}
	report, err := views.Run(ctx, c.Config)
	shown.Done()
	if report == nil {
		return err
	}
	// What went wrong before any view had its turn is all that there is to tell.
	if err != nil && !report.Measured() && failedRows(report) == 0 {
		if ctx.Err() != nil {
			return exit.Errorf(exit.Interrupted, "interrupted before anything was measured")
		}
		return err
	}
	if c.Mount != "" && err == nil {
		err = c.rebuiltByMount(ctx)
	}
	report.Version, report.Limits, report.Assumed, report.Rebuilt = mountd.Version(), c.limited, c.assumed, c.rebuilt
	if c.Compute.Batch != 0 {
		report.Compute = fmt.Sprintf("%s/%d", c.Compute.Time, c.Compute.Batch)
	}
	if e := c.show(report); e != nil {
		return errors.Join(e, err)
	}
	switch failed := failedRows(report); {
	case ctx.Err() != nil:
		return exit.Errorf(exit.Interrupted, "interrupted; what there is was measured in %s", human.Plural(report.Rounds, "round", "rounds"))
	case err != nil:
		return err
	case failed > 0:
		return exit.Errorf(exit.System, "%s could not be measured; the report says why", human.Plural(failed, "row", "rows"))
	}
	return nil
}

func failedRows(r *views.Report) (n int) {
	for i := range r.Rows {
		if r.Rows[i].Error != "" {
			n++
		}
	}
	return n
}

// The kinds of values that only this command has.

// intoWords takes words separated by commas.
func intoWords(p *[]string) func(string) error {
	return func(s string) error {
		for word := range strings.SplitSeq(s, ",") {
			if word = strings.TrimSpace(word); word == "" {
				return fmt.Errorf("%q has an empty word", s)
			}
			*p = append(*p, word)
		}
		return nil
	}
}

func intoCompute(p *loader.Compute) func(string) error {
	return func(s string) (err error) {
		*p, err = loader.ParseCompute(s)
		return err
	}
}

// show writes the report in every form that was asked for.
func (c *benchConfig) show(r *views.Report) (err error) {
	if c.html != "" { // what was measured is told even where no page can be written
		err = writeWhole(c.html, report.OfViews(r).HTML)
	}
	if c.asJSON {
		return errors.Join(err, human.PrintJSON(c.env.stdout, r))
	}
	report.OfViews(r).Text(c.env.stdout)
	return err
}

// checkPage refuses a file that cannot be written, before hours of measuring. The file is
// empty where none was given.
func checkPage(file string) error {
	if file == "" {
		return nil
	}
	dir := filepath.Dir(file)
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return exit.Errorf(exit.Usage, "--html %s is a directory; name a file in it", file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.Usage, "--html: %w", err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.Usage, "--html %s: there is no directory %s; make it first: mkdir -p %[2]s", file, dir)
	} else if err != nil {
		return exit.Errorf(exit.Usage, "--html %s: the directory cannot be written to: %w", file, err)
	}
	return nil
}

// writeWhole writes a file that has its name when it is whole.
func writeWhole(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := renameio.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// readerOption is --for: the loader of the training.
func readerOption(p *string) cli.Flag {
	names := loader.ReaderNames()
	return opt("for", strings.Join(names, "|"), "any of them", intoChoice(p, names...),
		"leave out views that this loader of your training cannot read")
}
