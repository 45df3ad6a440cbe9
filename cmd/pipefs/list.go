package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/terminal"
)

func listCommand(env *environ) *cli.Command {
	var out string
	var access remote.Access
	return &cli.Command{
		Name: "list", ArgsUsage: "DATASET", Category: stores, Usage: "save the list of files of a dataset, for mount --manifest",
		Description: "Saves names, sizes and versions of all files of a dataset in a directory, called a manifest. A mount with --manifest then lists nothing itself. Use it for datasets in buckets and on slow file servers. Files that are added later are not in the mount; files that are replaced cannot be read until the list is written again and pipefs refresh has read it.",
		UsageText: `pipefs list s3://bucket/imagenet -o imagenet.manifest
pipefs mount --manifest imagenet.manifest s3://bucket/imagenet ~/m`,
		Flags: append([]cli.Flag{
			short("o", opt("output", "MANIFEST", "", place(intoString(&out)), "write the list into this directory; an older list is replaced when the new one is complete")),
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
	bar := terminal.NewProgress(env.stderr, "objects listed", -1)
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
