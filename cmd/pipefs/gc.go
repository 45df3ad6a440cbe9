package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/packing"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
)

// gcConfig says what may be removed.
type gcConfig struct {
	remote    remote.Access
	store     string
	olderThan time.Duration
	remove    bool
}

func gcCommand(env *environ) *cli.Command {
	c := &gcConfig{olderThan: 7 * 24 * time.Hour}
	return &cli.Command{
		Name: "gc", ArgsUsage: "STORE", Category: stores, Usage: "list or delete the unused objects of a store",
		Description: "Unused objects are packs that no recent generation of the store refers to, leftovers of interrupted runs, plans that were not committed with everything that their shards have packed, and unfinished uploads to a bucket. Objects that are younger than --older-than always stay.\n" +
			"A mount that is older than that, and was not refreshed since, may need what is deleted.",
		UsageText: `pipefs gc /data/in.store      # list the objects
pipefs gc --older-than 30d --delete s3://bucket/in.store`,
		Flags: slices.Concat([]cli.Flag{
			opt("older-than", "AGE", "7d", intoAge(&c.olderThan), "keep whatever is younger than this, such as 12h or 7d"),
			&cli.BoolFlag{Name: "delete", Destination: &c.remove, Usage: "delete the objects (default: list them)"},
		}, remoteFlags(&c.remote)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if c.store, err = remote.Place(args[0]); err != nil {
				return err
			}
			return runGC(ctx, env, c)
		}),
	}
}

func runGC(ctx context.Context, env *environ, c *gcConfig) error {
	place, err := objectsOf(ctx, c.remote, c.store)
	if err != nil {
		return err
	}
	if is, err := packing.HoldsStore(ctx, place); err != nil || !is {
		if err == nil {
			err = exit.Errorf(exit.System, "%s is no store; pipefs pack makes one", c.store)
		}
		return bucketError(err)
	}
	if c.remove && !remote.Is(c.store) {
		lock, err := vfs.OS.Lock(filepath.Join(c.store, "lock"))
		if errors.Is(err, vfs.ErrLocked) {
			return exit.Errorf(exit.System, "another pipefs writes to %s; nothing was removed. Wait for it to end, and run the same command again", c.store)
		}
		if err != nil {
			return exit.With(exit.System, err)
		}
		defer lock.Close()
	}
	before := time.Now().Add(-c.olderThan)
	waste, uploads, err := packing.Garbage(ctx, c.remote, c.store, place, before)
	if err != nil {
		return bucketError(err)
	}
	var bytes int64
	for _, w := range waste {
		fmt.Fprintf(env.stdout, "%s  %s  %s\n", human.Line(w.Name), human.Size(w.Size), w.Why)
		bytes += w.Size
	}
	for _, u := range uploads {
		fmt.Fprintf(env.stdout, "%s  begun %s  an unfinished upload\n", u.Name, u.Begun.Format(time.DateOnly))
	}
	n := len(waste) + len(uploads)
	switch {
	case n == 0:
		fmt.Fprintf(env.stdout, "nothing to delete in %s\n", c.store)
	case !c.remove:
		fmt.Fprintf(env.stdout, "%s, %s: nothing was deleted (--delete deletes them)\n", human.Plural(n, "unused object", "unused objects"), human.Size(bytes))
	default:
		err := packing.Delete(ctx, noter(env.stderr), place, waste, uploads)
		if errors.Is(err, context.Canceled) {
			return exit.Errorf(exit.Interrupted, "interrupted; the same command goes on")
		}
		if err != nil {
			return bucketError(err)
		}
		fmt.Fprintf(env.stdout, "deleted %s, %s\n", human.Plural(n, "unused object", "unused objects"), human.Size(bytes))
	}
	return nil
}

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
		}, remoteFlags(&c.Remote), rarely([]cli.Flag{
			opt("build-dir", "DIR", "~/.cache/pipefs/build", place(intoString(&c.BuildDir)), "build packs for a bucket in this directory"),
		}...)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if c.Store, err = remote.Place(args[0]); err != nil {
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
	bar := human.NewProgress(env.stderr, "compacting", -1)
	var r store.CompactReport
	err := c.config(env).Change(ctx, func(files vfs.FS, _ func() error) (err error) {
		r, err = store.Compact(ctx, c.Store, store.CompactOptions{
			Dead: dead, FS: files, IndexDir: mountd.IndexDir(c.Remote, c.Store), Logger: quiet(env),
			Progress: func(done, of int) { bar.SetTotal(of); bar.Reach(done) },
		})
		return err
	})
	bar.Done()
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; the store is as it was")
	case errors.Is(err, store.ErrNotStore):
		return exit.Errorf(exit.System, "%s is no store; pipefs pack makes one", c.Store)
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs writes to %s; wait for it to end, and run the same command again", c.Store)
	case errors.Is(err, vfs.ErrConflict):
		return exit.Errorf(exit.System, "%s: %w; run the same command again", c.Store, remote.ErrOtherWriter)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "compacting %s: the disk is full, and the store is as it was; free some space and run the same command again", c.Store)
	case err != nil:
		return exit.With(exit.System, fmt.Errorf("compacting %s: %w", c.Store, err))
	case r.Packs == 0:
		fmt.Fprintf(env.stdout, "nothing to compact in %s: no pack has %s or more unused data\n", c.Store, human.Share(dead))
		return nil
	}
	fmt.Fprintf(env.stdout, "rewrote %s (%s) as %s (%s) in %s\n", human.Plural(r.Packs, "pack", "packs"), human.Size(r.Bytes), human.Plural(r.NewPacks, "new pack", "new packs"), human.Size(r.NewBytes), time.Since(began).Round(100*time.Millisecond))
	fmt.Fprintf(env.stdout, "the old packs stay until you remove them: pipefs gc --delete %s\n", shellWord(c.Store))
	return nil
}
