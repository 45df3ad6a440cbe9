package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
)

func checkCommand(env *environ) *cli.Command {
	var access remote.Access
	return &cli.Command{
		Name: "check", ArgsUsage: "STORE", Category: stores, Usage: "verify every byte of a store",
		Description: "Compares every checksum of packs, fractions and index, and every reference between them. Nothing is changed. A store in a bucket is downloaded completely, past the cache. The exit code is 0 if the store is whole, and 2 otherwise.",
		UsageText: `pipefs check /data/in.store        # after a crash, or before deleting the dataset
pipefs check /data/in.store && pipefs mount /data/in.store ~/m`,
		Flags: remoteFlags(&access),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			dir, err := remote.Place(args[0])
			if err != nil {
				return err
			}
			files, done, err := mountd.OpenFiles(ctx, access, dir, remote.Options{Whole: true, Log: quiet(env)})
			if err != nil {
				return err
			}
			defer done()
			problems, err := store.Check(ctx, dir, store.Options{Logger: quiet(env), FS: files})
			for _, p := range problems {
				fmt.Fprintln(env.stdout, p)
			}
			switch {
			case errors.Is(err, store.ErrNotStore):
				return exit.Errorf(exit.System, "%s is no store; pipefs pack makes one", dir)
			case err != nil:
				return fmt.Errorf("checking %s: %w", dir, err)
			case len(problems) > 0:
				return exit.Errorf(exit.System, "%s: %s", dir, human.Plural(len(problems), "problem", "problems"))
			}
			fmt.Fprintf(env.stdout, "%s is whole\n", dir)
			return nil
		}),
	}
}
