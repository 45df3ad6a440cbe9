package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
)

func checkCommand(env *environ) *cli.Command {
	var access remote.Access
	return &cli.Command{
		Name: "check", ArgsUsage: "STORE", Category: stores, Usage: "verify every byte of a store",
		Description: "Every checksum is compared, of packs, fractions and index, and what refers to what. Nothing is changed. A store in a bucket is fetched whole for it, past the cache. The exit code is 0 for a store that is whole, and 2 otherwise.",
		UsageText: `# after a crash of the machine, or before the dataset is deleted
pipefs check /data/in.store
# mount only what is whole
pipefs check /data/in.store && pipefs mount /data/in.store ~/m`,
		Flags: remoteOptions(&access),
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
				return exit.Errorf(exit.System, "%s: %s", dir, plural(len(problems), "problem", "problems"))
			}
			fmt.Fprintf(env.stdout, "%s is whole\n", dir)
			return nil
		}),
	}
}
