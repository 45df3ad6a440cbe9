package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
)

func compactCommand(env *environ) *cli.Command {
	c := &packConfig{}
	dead := 0.5
	return &cli.Command{
		Name: "compact", ArgsUsage: "STORE", Category: stores, Usage: "rewrite packs with much unused data",
		Description: "Data becomes unused when its sample is replaced or removed. This command copies the data in use into new packs, byte for byte. The old packs stay, so that mounts can finish reading them, until pipefs gc deletes them.",
		UsageText: `pipefs compact --dead 30% s3://bucket/in.store
pipefs compact /data/in.store && pipefs gc --older-than 1d --delete /data/in.store`,
		Flags: slices.Concat([]cli.Flag{
			opt("dead", "SHARE", "50%", intoShare(&dead), "rewrite packs with at least this share of unused data"),
		}, remoteFlags(&c.remote), rarely([]cli.Flag{
			opt("build-dir", "DIR", "~/.cache/pipefs/build", place(intoString(&c.buildDir)), "build packs for a bucket in this directory"),
		}...)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if c.store, err = remote.Place(args[0]); err != nil {
				return err
			}
			if dead <= 0 {
				return exit.Errorf(exit.Usage, "--dead 0%% would rewrite everything; write a share above that")
			}
			return runCompact(ctx, env, c, dead)
		}),
	}
}

func runCompact(ctx context.Context, env *environ, c *packConfig, dead float64) error {
	began := time.Now()
	bar := terminal.NewProgress(env.stderr, "compacting", -1)
	var r store.CompactReport
	err := c.config(env).Change(ctx, func(files vfs.FS, _ func() error) (err error) {
		r, err = store.Compact(ctx, c.store, store.CompactOptions{
			Dead: dead, FS: files, IndexDir: mountd.IndexDir(c.remote, c.store), Logger: quiet(env),
			Progress: func(done, _ int) { bar.Reach(done) },
		})
		return err
	})
	bar.Done()
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; the store is as it was")
	case errors.Is(err, store.ErrNotStore):
		return exit.Errorf(exit.System, "%s is no store; pipefs pack makes one", c.store)
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs writes to %s; wait for it to end, and run the same command again", c.store)
	case errors.Is(err, vfs.ErrConflict):
		return exit.Errorf(exit.System, "%s: %w; run the same command again", c.store, remote.ErrOtherWriter)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "compacting %s: the disk is full, and the store is as it was; make room and run the same command again", c.store)
	case err != nil:
		return exit.With(exit.System, fmt.Errorf("compacting %s: %w", c.store, err))
	case r.Packs == 0:
		fmt.Fprintf(env.stdout, "nothing to compact in %s: no pack has %s or more unused data\n", c.store, human.Share(dead))
		return nil
	}
	fmt.Fprintf(env.stdout, "rewrote %s (%s) as %s (%s) in %s\n", human.Plural(r.Packs, "pack", "packs"), human.Size(r.Bytes), human.Plural(r.NewPacks, "new pack", "new packs"), human.Size(r.NewBytes), time.Since(began).Round(100*time.Millisecond))
	fmt.Fprintf(env.stdout, "the old packs stay until you remove them: pipefs gc --delete %s\n", shellWord(c.store))
	return nil
}
