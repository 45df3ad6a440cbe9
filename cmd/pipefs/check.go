package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/store"
)

func checkCommand(env *environ) *cli.Command {
	var o mountd.SourceOptions
	var list string
	return &cli.Command{
		Name: "check", ArgsUsage: "STORE|DATASET", Category: stores, Usage: "verify a store, or every sample of a dataset",
		Description: "Of a store, compares every checksum of packs, fractions and index, and every reference between them. Of a dataset, decodes every sample, and names those that cannot be decoded with the cause. Nothing is changed. What is in a bucket is downloaded completely, past the cache. The exit code is 0 if nothing is wrong, and 2 otherwise.",
		UsageText: `pipefs check /data/in.store        # after a crash, or before deleting the dataset
pipefs check /data/in.store && pipefs mount /data/in.store ~/m
pipefs check ~/imagenet --list bad.csv`,
		Flags: slices.Concat([]cli.Flag{
			opt("list", "FILE", "", place(intoString(&list)), "write the broken samples of a dataset to a CSV file"),
		}, remoteFlags(&o.Remote), limitFlags(&o.Limits)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if o.Path, err = remote.Place(args[0]); err != nil {
				return err
			}
			err = checkStore(ctx, env, o.Remote, o.Path)
			switch {
			case errors.Is(err, store.ErrNotStore):
				return checkDataset(ctx, env, o, list)
			case list != "":
				fmt.Fprintf(env.stderr, "pipefs: %s is a store, of which --list writes nothing: pipefs info --json names the samples that no codec could read when it was packed\n", o.Path)
			}
			return err
		}),
	}
}

func checkStore(ctx context.Context, env *environ, access remote.Access, dir string) error {
	files, done, err := mountd.OpenFiles(ctx, access, dir, remote.Options{Whole: true, Log: quiet(env)})
	if err != nil {
		return err
	}
	defer done()
	bar := human.NewProgress(env.stderr, "packs checked", -1)
	problems, err := store.Check(ctx, dir, store.Options{Logger: quiet(env), FS: files}, func(done, of int) { bar.SetTotal(of); bar.Reach(done) })
	bar.Done()
	for _, p := range problems {
		fmt.Fprintln(env.stdout, p)
	}
	switch {
	case err != nil:
		return fmt.Errorf("checking %s: %w", dir, err)
	case len(problems) > 0:
		return exit.Errorf(exit.System, "%s: %s", dir, human.Plural(len(problems), "problem", "problems"))
	}
	fmt.Fprintf(env.stdout, "%s is whole\n", dir)
	return nil
}

// checkDataset decodes all samples of a dataset.
func checkDataset(ctx context.Context, env *environ, o mountd.SourceOptions, list string) error {
	s, err := openSource(ctx, env, o)
	if err != nil {
		return err
	}
	defer s.Close()
	var unlisted []error
	names, err := s.List(ctx, func(err error) { unlisted = append(unlisted, err) })
	if err != nil {
		return err
	}
	if len(names.Samples) == 0 {
		return exit.Errorf(exit.System, "%s is no store, and has no samples", s.Path)
	}
	bar := human.NewProgress(env.stderr, "samples checked", len(names.Samples))
	bad, err := s.Check(ctx, names.Samples, func() { bar.Add(1) })
	bar.Done()
	if err != nil {
		return exit.With(exit.Interrupted, err)
	}
	for _, b := range bad {
		fmt.Fprintf(env.stdout, "%s: %s\n", human.Line(b.Path), human.Line(b.Cause))
	}
	for _, err := range unlisted {
		fmt.Fprintf(env.stderr, "pipefs: not checked: %v\n", err)
	}
	if list != "" {
		if err := writeBad(list, bad); err != nil {
			return err
		}
	}
	if len(bad)+len(unlisted) > 0 {
		return exit.Errorf(exit.System, "%s: %s of %s cannot be decoded", s.Path, human.Count(int64(len(bad))), human.Plural(len(names.Samples), "sample", "samples"))
	}
	fmt.Fprintf(env.stdout, "%s is whole: %s decoded\n", s.Path, human.Plural(len(names.Samples), "sample", "samples"))
	return nil
}

// writeBad writes bad samples as a list.
func writeBad(file string, bad []serve.BadSample) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	rows := [][]string{{"path", "cause"}}
	for _, b := range bad {
		rows = append(rows, []string{b.Path, b.Cause})
	}
	return errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close())
}
