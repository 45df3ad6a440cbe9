package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/prepare"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// materializeConfig is all that a materializing can be told.
type materializeConfig struct {
	mountd.SourceOptions // of the store
	view                 string
	fraction             float64 // 0 to 1
	maxBytes             int64
	verify               bool
}

// decodeWord is what papers call the step whose result is kept; its plainest file
// is that of bmp.
const decodeWord = "decode"

func materializeCommand(env *environ) *cli.Command {
	c := &materializeConfig{SourceOptions: mountd.SourceOptions{StoreOnly: true}, fraction: 1}
	options := slices.Concat([]cli.Flag{
		opt("fraction", "F", "1", intoShare(&c.fraction), "store this share of the samples, such as 0.3, 30% or 3/10, evenly spread; 0 removes all"),
		opt("max-bytes", "SIZE", "", intoSize(&c.maxBytes, 1), "do nothing if more disk space is needed, such as 50GB"),
		&cli.BoolFlag{Name: "verify", Destination: &c.verify, Usage: "read everything that is stored, and replace what is damaged"},
		opt("dataset", "DIR", "", place(intoString(&c.Dataset)), "name the dataset of the store, for originals that it does not hold"),
		opt("workers", "N", "one a core", intoInt(&c.Workers, 1, 4096), "make this many results at once"),
	}, roleFlags(&c.Roles), remoteFlags(&c.Remote), limitFlags(&c.Limits))
	return &cli.Command{
		Name: "materialize", ArgsUsage: "STORE [VIEW]", Category: stores, Usage: "store the files of a view for some or all samples",
		Description: "A mount reads materialized files as they are, and makes all others; both have the same bytes. Raw pixels (bmp, ppm) load the disk instead of the CPU: materialize the fraction that keeps both busy (see pipefs tune).\n" +
			"The store can stay mounted; the next mount uses the new files. An interrupted run is continued by the same command. Without VIEW, the materialized views are listed.",
		UsageText: `pipefs materialize /data/in.store bmp --fraction 0.3
pipefs materialize /data/in.store resize256-jpeg90 --max-bytes 20GB
pipefs materialize /data/in.store                      # list
pipefs materialize /data/in.store bmp --fraction 0     # remove`,
		Flags: options,
		Before: func(ctx *cli.Context) error {
			if f := firstGiven(ctx, options); f != "" && ctx.NArg() == 1 {
				return exit.Errorf(exit.Usage, "--%s needs a view: pipefs materialize %s bmp --%[1]s …; without one this lists what is kept", f, ctx.Args().First())
			}
			return nil
		},
		Action: takes(1, 2, func(ctx context.Context, args []string) (err error) {
			if c.Path, err = remote.Place(args[0]); err != nil {
				return err
			}
			if len(args) == 1 {
				return listFractions(ctx, env, c)
			}
			if remote.Is(c.Path) {
				return errWritten("pipefs materialize", c.Path, "materialize a copy in a directory of this machine; without a view this lists what is kept there")
			}
			if c.view = args[1]; c.view == decodeWord {
				c.view = "bmp"
			}
			return runMaterialize(ctx, env, c)
		}),
	}
}

func runMaterialize(ctx context.Context, env *environ, c *materializeConfig) error {
	started := time.Now()
	s, err := openSource(ctx, env, c.SourceOptions)
	if err != nil {
		return err
	}
	defer s.Close()
	view, err := c.parse(s.Registry)
	if err != nil {
		return err
	}
	if c.fraction == 0 {
		return removeFraction(env, s.Store, c, view)
	}
	bar := human.NewProgress(env.stderr, "looking at samples", int(s.Store.Stats().Samples))
	chosen, err := prepare.Materialize(ctx, s.Server, s.Store, c.Roles, view, c.fraction, func() { bar.Add(1) })
	bar.Done()
	if err != nil {
		return materializeError(c, view, 0, prepare.RunReport{}, err)
	}
	survey.NoteSpared(noter(env.stderr), chosen.Spared)
	if chosen.Samples == 0 {
		return nothingToKeep(env, c, view, chosen)
	}
	left := warnings{env: env}
	bar = human.NewProgress(env.stderr, "reading what is there", len(chosen.Wanted))
	report, err := chosen.Run(ctx, prepare.RunOptions{
		Dir: c.Path, Share: c.fraction, MaxBytes: c.maxBytes, Workers: c.Workers, Verify: c.verify, Warn: left.add,
		Begin:    func(results int) { bar.Done(); bar = human.NewProgress(env.stderr, "materializing", results) },
		Progress: func(n int) { bar.Reach(n) },
	})
	bar.Done()
	if err != nil {
		return materializeError(c, view, len(chosen.Wanted), report, err)
	}
	tellFraction(env.stdout, c, view, chosen, report, started)
	// Samples that are damaged will be so the next time, and readers are told.
	if failed := report.Failed - report.Damaged; failed > 0 {
		return exit.Errorf(exit.System, "%s could not be made; the same command tries again, and keeps the others", human.Plural(failed, "result", "results"))
	}
	return nil
}

// parse reads the view, whose files are to be stored under their own key.
func (c *materializeConfig) parse(r *transcode.Registry) (transcode.Pipeline, error) {
	view, err := r.Parse(c.view)
	switch whole := view.Whole(); {
	case err != nil:
	case view.Stored():
		err = exit.Errorf(exit.Usage, "%s shows what is stored; store it with pipefs materialize %s %s", view, c.Path, whole)
	case whole.String() != view.String():
		err = exit.Errorf(exit.Usage, "%s shows the files of %s under other names; store them with pipefs materialize %s %[2]s", view, whole, c.Path)
	case view.Len() == 0:
		err = exit.Errorf(exit.Usage, "%s is the dataset as it is, which pipefs pack keeps (--originals keep); name another view, such as bmp", transcode.Original)
	}
	return view, err
}

// removeFraction removes the whole fraction.
func removeFraction(env *environ, s *store.Store, c *materializeConfig, view transcode.Pipeline) error {
	err := s.RemoveFraction(view.String())
	switch {
	case errors.Is(err, store.ErrNotFound):
		fmt.Fprintf(env.stdout, "%s is not kept in %s: nothing to remove\n", view, c.Path)
		return nil
	case err != nil:
		return materializeError(c, view, 0, prepare.RunReport{}, err)
	}
	fmt.Fprintf(env.stdout, "%s is not kept any more\n", view)
	return nil
}

// nothingToKeep says why there is nothing to keep.
func nothingToKeep(env *environ, c *materializeConfig, view transcode.Pipeline, chosen *prepare.Materializing) error {
	if n := chosen.Stored; n > 0 {
		fmt.Fprintf(env.stdout, "nothing to keep: the store itself holds %s as %s shows them\n", human.Plural(n, "sample", "samples"), view)
		return nil
	}
	why := "it has no samples"
	if n := chosen.Unchanged + chosen.Faulty; n > 0 {
		why = fmt.Sprintf("%s shows %s unchanged", view, human.Plural(n, "sample", "samples"))
		if chosen.Faulty > 0 {
			why += fmt.Sprintf(", %s of which no codec can read", human.Count(chosen.Faulty))
		}
	}
	return exit.Errorf(exit.Usage, "there is nothing to keep in %s: %s (pipefs views %[1]s lists what views show)", c.Path, why)
}

// materializeError tells how to go on, with what so many samples were wanted for.
func materializeError(c *materializeConfig, view transcode.Pipeline, wanted int, r prepare.RunReport, err error) error {
	dir := c.Path
	var space *prepare.SpaceError
	switch {
	case errors.As(err, &space):
		return spaceError(c, view, wanted, space)
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted after %s; what was made is kept, and the same command goes on from there", human.Plural(r.Made, "result", "results"))
	case errors.Is(err, serve.ErrRefused):
		return exit.With(exit.Usage, err)
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs pack or materialize writes to %s; wait for it to end", dir)
	case errors.Is(err, store.ErrChanged):
		return exit.Errorf(exit.System, "%s was packed again meanwhile; run the same command again", dir)
	case errors.Is(err, store.ErrVersion):
		return exit.Errorf(exit.System, "%w; use that version, or remove the directory to make it again", err)
	}
	return fmt.Errorf("materializing %s in %s: %w", view, dir, err)
}

// spaceError says how much space is missing, and what would fit.
func spaceError(c *materializeConfig, view transcode.Pipeline, wanted int, e *prepare.SpaceError) error {
	about, fits := "about ", "nothing of it would fit"
	if e.Exact {
		about = ""
	}
	if e.Fits > 0 {
		fits = fmt.Sprintf("--fraction %g would fit", e.Fits)
	}
	what := fmt.Sprintf("%s of %s (%s)", view, human.Plural(wanted, "sample", "samples"), human.Share(c.fraction))
	if e.MaxBytes > 0 {
		return exit.Errorf(exit.System, "%s takes %s%s, over the %s of --max-bytes; %s", what, about, human.Size(e.Bytes), human.Size(e.MaxBytes), fits)
	}
	return exit.Errorf(exit.System, "%s takes %s%s more on the disk of %s, where %s are free and %s shall stay so; %s", what, about,
		human.Size(e.Bytes), c.Path, human.Size(e.Free), human.Size(e.Margin), fits)
}

func tellFraction(w io.Writer, c *materializeConfig, view transcode.Pipeline, chosen *prepare.Materializing, r prepare.RunReport, started time.Time) {
	have := r.Made + r.Kept
	if have == 0 && r.Failed == 0 {
		fmt.Fprintf(w, "%s of %s is none: nothing is kept\n", human.Share(c.fraction), human.Plural(chosen.Samples, "sample", "samples"))
		return
	}
	fmt.Fprintf(w, "%s is kept of %s of %s samples (%s)\n", view, human.Count(have), human.Count(chosen.Samples),
		human.Share(float64(have)/float64(chosen.Samples)))
	fmt.Fprintf(w, "made %s, kept %s that were there, removed %s; %s written in %s\n", human.Plural(r.Made, "result", "results"), human.Count(r.Kept),
		human.Count(r.Dropped), human.Size(r.Bytes), time.Since(started).Round(100*time.Millisecond))
	for _, n := range []struct {
		count int
		text  string
	}{
		{chosen.Unchanged, "shown unchanged, and not counted"},
		{chosen.Stored, "in the store as the view shows them, and not counted"},
		{chosen.Faulty, "that no codec can read, and not counted"},
		{int(r.Damaged), "whose pixels are damaged, left out"},
	} {
		if n.count > 0 {
			fmt.Fprintf(w, "note: %s %s\n", human.Plural(n.count, "sample", "samples"), n.text)
		}
	}
}

func listFractions(ctx context.Context, env *environ, c *materializeConfig) error {
	s, err := openSource(ctx, env, c.SourceOptions)
	if err != nil {
		return err
	}
	defer s.Close()
	if len(s.Store.Fractions()) == 0 {
		fmt.Fprintf(env.stdout, "no view is kept; pipefs materialize %s bmp --fraction 0.3 keeps the raw pixels of 30%% of the samples\n", c.Path)
		return nil
	}
	l, err := s.List(ctx, nil)
	if err != nil {
		return err
	}
	survey.PrintFractions(env.stdout, survey.FractionsOf(s.Store, len(l.Samples)))
	return nil
}
