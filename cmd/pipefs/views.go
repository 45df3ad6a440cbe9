package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func viewsCommand(env *environ) *cli.Command {
	var all, steps, asJSON bool
	var o mountd.SourceOptions
	return &cli.Command{
		Name: "views", ArgsUsage: "DATASET|STORE [VIEW…]", Category: everyday, Usage: "show what the views of a dataset contain",
		Description: "For the usual views, or for each VIEW: how many samples it changes, how many it leaves unchanged, the total size if it is known in advance, and an example path. Reads the headers of samples, and the pixels of some grey and palette images.",
		UsageText: `pipefs views ~/imagenet
pipefs views ~/scenes resize512-png --masks '**/labels/*.png'
pipefs views --steps      # the steps of which views are made`,
		Flags: slices.Concat(roleFlags(&o.Roles), []cli.Flag{
			classesFlag(&o.Classes),
			&cli.BoolFlag{Name: "all", Destination: &all, Usage: fmt.Sprintf("look at every sample (default: at %s of them)", human.Count(survey.MostLooked))},
			&cli.BoolFlag{Name: "steps", Destination: &steps, Usage: "list the steps of which views are made"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		}, remoteFlags(&o.Remote), limitFlags(&o.Limits)),
		Action: takes(0, math.MaxInt, func(ctx context.Context, args []string) error {
			if steps {
				survey.PrintSteps(env.stdout, codecs.Default(o.Limits))
				return nil
			}
			if len(args) == 0 {
				return exit.Errorf(exit.Usage, "views needs a dataset or a store: pipefs views ~/imagenet (or --steps)")
			}
			o.Path = args[0]
			s, err := openSource(ctx, env, o)
			if err != nil {
				return err
			}
			defer s.Close()
			tell(env, s.Notes)
			t, err := survey.Count(ctx, s, survey.Options{Views: args[1:], All: all, Roles: o.Roles, Unlisted: unlisted(env), Stderr: env.stderr})
			if err != nil {
				return err
			}
			if asJSON {
				return human.PrintJSON(env.stdout, t)
			}
			if t.Samples == 0 {
				fmt.Fprintf(env.stderr, "pipefs: note: %s\n", survey.NoPictures(t.Listed, s.Path))
				return nil
			}
			t.Print(env.stdout)
			return nil
		}),
	}
}

func listCommand(env *environ) *cli.Command {
	var out string
	var access remote.Access
	return &cli.Command{
		Name: "list", ArgsUsage: "DATASET", Category: stores, Usage: "save the list of files of a dataset, for mount --manifest",
		Description: "Saves names, sizes and versions of all files of a dataset in a directory, called a manifest. A mount with --manifest then lists nothing itself. Use it for datasets in buckets and on slow file servers. Files that are added later are not in the mount; files that are replaced cannot be read until the list is written again and pipefs refresh has read it.",
		UsageText: `pipefs list s3://bucket/imagenet -o imagenet.manifest
pipefs mount --manifest imagenet.manifest s3://bucket/imagenet ~/m`,
		Flags: append([]cli.Flag{
			&cli.GenericFlag{
				Name: "output", Aliases: []string{"o"}, Value: &value{set: place(intoString(&out)), arg: "MANIFEST"},
				Usage: "write the list into this directory; an older list is replaced when the new one is complete",
			},
		}, remoteFlags(&access)...),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			if out == "" {
				return exit.Errorf(exit.Usage, "say where the list is to be written: pipefs list %s -o FILE.manifest", args[0])
			}
			return runList(ctx, env, access, args[0], out)
		}),
	}
}

func runList(ctx context.Context, env *environ, access remote.Access, dataset, out string) error {
	if remote.Is(dataset) {
		var err error
		if dataset, err = mountd.ResolveSource(ctx, access, dataset); err != nil {
			return bucketError(err)
		}
	}
	place, err := mountd.Connect(ctx, access, dataset, quiet(env))
	if err != nil {
		return err
	}
	began := time.Now()
	bar := human.NewProgress(env.stderr, "objects listed", -1)
	s, err := bucket.Write(ctx, place, out, bucket.WriteOptions{
		Progress: func(objects int64) { bar.Reach(int(objects)) }, Log: quiet(env),
	})
	bar.Done()
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; nothing was written to %s", out)
	case errors.Is(err, bucket.ErrEmpty):
		return exit.With(exit.System, err)
	case err != nil:
		return bucketError(fmt.Errorf("listing %s: %w", dataset, err))
	}
	fmt.Fprintf(env.stdout, "listed %s, %s, in %s\n", human.Plural(s.Objects, "object", "objects"), human.Size(s.Bytes), time.Since(began).Round(time.Millisecond))
	if s.LeftOut > 0 {
		fmt.Fprintf(env.stdout, "%s left out, because their names are no paths of files\n", human.Plural(s.LeftOut, "object is", "objects are"))
	}
	fmt.Fprintf(env.stdout, "mount it with: pipefs mount --manifest %s %s MNT\n", shellWord(out), shellWord(s.Place))
	return nil
}

func infoCommand(env *environ) *cli.Command {
	var asJSON, similar bool
	var measured int
	var o mountd.SourceOptions
	return &cli.Command{
		Name: "info", ArgsUsage: "STORE|DATASET", Category: stores, Usage: "summarize a dataset or a store",
		Description: "Counts the samples of each format and mode, and lists broken ones. Of a store it also shows how it was packed, the bytes of each representation, how originals are restored, and which views are materialized. --mssim measures how similar the pictures of MNT/scan1 … scan10 are to the complete ones.",
		UsageText: `pipefs info ~/imagenet
pipefs info /data/in.store
pipefs info --json ~/imagenet | jq -r '.faults[].path'
pipefs info --mssim ~/imagenet      # which fidelity to train from`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "mssim", Destination: &similar, Usage: "measure how similar some samples are at each fidelity (1 is equal)"},
			opt("samples", "N", fmt.Sprint(usuallyMeasured), intoInt(&measured, 1, 1<<30), "set how many samples --mssim measures"),
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON, with all faults"},
		}, remoteFlags(&o.Remote), limitFlags(&o.Limits)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			if measured > 0 && !similar {
				return exit.Errorf(exit.Usage, "--samples goes with --mssim: pipefs info --mssim --samples %d %s", measured, args[0])
			}
			var l *mssim.Survey
			if similar {
				l = &mssim.Survey{Wanted: cmp.Or(measured, usuallyMeasured)}
			}
			// one that was interrupted while it measured has something to tell
			o.Path = args[0]
			i, err := inspect(ctx, env, o, l)
			if i == nil {
				return err
			}
			if asJSON {
				return errors.Join(human.PrintJSON(env.stdout, i), err)
			}
			i.Print(env.stdout)
			return err
		}),
	}
}

// inspect looks at every sample, and measures some if there is a survey to fill. If that is
// interrupted, it returns what it has and an error.
func inspect(ctx context.Context, env *environ, o mountd.SourceOptions, like *mssim.Survey) (*survey.Information, error) {
	s, err := openSource(ctx, env, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	i, err := survey.Inspect(ctx, s, like, unlisted(env), env.stderr)
	if err != nil || like == nil {
		return i, err
	}
	return i, measure(ctx, env, s, like)
}

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
	bar := human.NewProgress(env.stderr, "measuring samples", -1)
	total := 0
	err = l.Measure(ctx, s.Registry, func(ctx context.Context, name string) (transcode.Split, error) { return s.Split(ctx, kind, name) },
		func(samples int) { total = samples; bar.SetTotal(samples) }, func() { bar.Add(1) })
	bar.Done()
	if err != nil {
		return exit.Errorf(exit.Interrupted, "interrupted after %d of %s", l.Measured, human.Plural(total, "sample", "samples"))
	}
	return nil
}
