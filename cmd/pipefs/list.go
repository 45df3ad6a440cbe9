package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source/bucket"
)

func listCommand(env *environ) *cli.Command {
	var out string
	var access remote.Access
	return &cli.Command{
		Name: "list", ArgsUsage: "DATASET", Category: stores, Usage: "save the list of files of a dataset, for mount --manifest",
		Description: "A dataset in a bucket is listed when it is first mounted, which takes a request for each 1,000 objects, and the list is kept for later mounts of this user. This command does it ahead of time, for all machines: the directory that it writes, called a manifest, holds names, sizes and versions of all objects, and mount --manifest lists nothing. Objects that are put into the bucket later are not in it; those that are replaced can no longer be read by such a mount, until it is written again and pipefs refresh has read it.",
		UsageText: `# then: pipefs mount --manifest imagenet.manifest s3://bucket/imagenet ~/m
pipefs list s3://bucket/imagenet -o imagenet.manifest
# a directory on a file server, which takes as long to list
pipefs list /nfs/imagenet -o imagenet.manifest`,
		Flags: append([]cli.Flag{
			short("o", opt("output", "MANIFEST", "", place(intoString(&out)), "the directory to write; a manifest that is there is replaced when the list is complete")),
		}, remoteOptions(&access)...),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			if out == "" {
				return exit.Errorf(exit.Usage, "say where the list is to be written: pipefs list %s -o FILE.manifest", args[0])
			}
			return runList(ctx, env, access, args[0], out)
		}),
	}
}

func runList(ctx context.Context, env *environ, access remote.Access, dataset, out string) error {
	place, err := mountd.Connect(ctx, access, dataset, quiet(env))
	if err != nil {
		return err
	}
	began := time.Now()
	bar := newProgress(env, "objects listed", -1)
	s, err := bucket.Write(ctx, place, out, bucket.WriteOptions{
		Progress: func(objects int64) { bar.reach(int(objects)) }, Log: quiet(env),
	})
	bar.done()
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; nothing was written to %s", out)
	case errors.Is(err, bucket.ErrEmpty):
		return exit.With(exit.System, err)
	case err != nil:
		return bucketError(fmt.Errorf("listing %s: %w", dataset, err))
	}
	fmt.Fprintf(env.stdout, "listed %s, %s, in %s\n", plural(s.Objects, "object", "objects"), formatSize(s.Bytes), time.Since(began).Round(time.Millisecond))
	if s.LeftOut > 0 {
		fmt.Fprintf(env.stdout, "%s left out, because their names are no paths of files\n", plural(s.LeftOut, "object is", "objects are"))
	}
	fmt.Fprintf(env.stdout, "mount it with: pipefs mount --manifest %s %s MNT\n", shellWord(out), shellWord(s.Place))
	return nil
}
