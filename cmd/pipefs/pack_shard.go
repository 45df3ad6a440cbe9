package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/packing"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
)

// shardConfig is what a worker of a plan is told.
type shardConfig struct {
	pack        *packConfig
	plan        string // URL
	first, last int    // shards
	dataset     string // "" is where it was planned
}

func (w *shardConfig) given() bool { return w.dataset != "" || w.first >= 0 }

// indexes are where job arrays tell a task its number.
var indexes = []string{"JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "AWS_BATCH_JOB_ARRAY_INDEX"}

// run packs shards. The plan has the options that say what is stored.
func (w *shardConfig) run(ctx context.Context, env *environ, args []string) error {
	if len(args) > 0 {
		return exit.Errorf(exit.Usage, "the plan knows its dataset and its store: leave out %s; --dataset says where the dataset is on this machine", strings.Join(args, " "))
	}
	if err := w.which(); err != nil {
		return err
	}
	place, id, err := packing.SplitURL(w.plan)
	if err == nil {
		place, err = remote.Place(place)
	}
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	objects, err := mountd.Connect(ctx, w.pack.Remote, place, quiet(env))
	if err != nil {
		return err
	}
	p, err := packing.Open(ctx, objects, id)
	if err != nil {
		return bucketError(err)
	}
	if w.last >= p.Shards {
		return exit.Errorf(exit.Usage, "there is no shard %d: the plan has shards 0 to %d", w.last, p.Shards-1)
	}
	w.pack.Store, w.pack.Dataset = place, cmp.Or(w.dataset, p.Dataset)
	if !remote.Is(w.pack.Dataset) && !remote.Is(p.Dataset) {
		if _, err := filledDataset(ctx, env, w.pack.Remote, w.pack.Dataset, "packed"); err != nil {
			return fmt.Errorf("%w; --dataset DIR says where the dataset is on this machine", err)
		}
	}
	if memory, _ := p.Needs(); debug.SetMemoryLimit(-1) == math.MaxInt64 { // none is set by GOMEMLIMIT
		debug.SetMemoryLimit(memory)
	}
	c := w.pack.config(env)
	worker, done, err := c.Worker(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	worker.Place = objects
	for i := w.first; i <= w.last; i++ {
		if err := packShard(ctx, env, c, worker, i); err != nil {
			return err
		}
	}
	return nil
}

// which takes the number of the shard from the environment, if it was not given.
func (w *shardConfig) which() error {
	if w.first >= 0 {
		return nil
	}
	for _, name := range indexes {
		if n := os.Getenv(name); n != "" {
			if err := intoRange(&w.first, &w.last)(n); err != nil {
				return exit.Errorf(exit.Usage, "%s: %w", name, err)
			}
			return nil
		}
	}
	return exit.Errorf(exit.Usage, "say which shard: --shard 7, or 0..99 for several; or set %s", strings.Join(indexes, ", "))
}

func packShard(ctx context.Context, env *environ, c *packing.Config, worker *packing.Worker, i int) error {
	started := time.Now()
	left := warnings{env: env}
	worker.Warn = left.add
	bar := human.NewProgress(env.stderr, fmt.Sprintf("packing shard %d", i), -1)
	worker.Options.Progress = func(p store.Progress) { bar.Reach(int(p.Files + p.Failed)) }
	m, err := worker.Pack(ctx, i)
	bar.Done()
	if err != nil {
		return shardError(c, i, err)
	}
	if m.Before {
		fmt.Fprintf(env.stdout, "shard %d is done already\n", i)
		return nil
	}
	fmt.Fprintf(env.stdout, "shard %d is done: %s, %s read, %s in %s\n", i, human.Plural(m.Files, "file", "files"), human.Size(m.Bytes),
		human.Plural(len(m.Packs), "pack", "packs"), time.Since(started).Round(100*time.Millisecond))
	if m.Failed > 0 {
		fmt.Fprintf(env.stdout, "%s left out: no longer as planned, or not to be stored; pipefs commit lists them\n", human.Plural(m.Failed, "file was", "files were"))
	}
	return nil
}

// shardError tells how to go on.
func shardError(c *packing.Config, i int, err error) error {
	again := "run the same command again"
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; shard %d is not done. %s", i, again)
	case errors.Is(err, packing.ErrDiffers):
		return exit.Errorf(exit.System, "shard %d: %w. If it is damaged, delete it, and %s. Else a file of the dataset was changed or removed between two runs, or the versions of pipefs differ: plan again, and pack that plan", i, err, again)
	case errors.Is(err, packing.ErrNotThere):
		return exit.Errorf(exit.System, "%w. Say where the dataset is on this machine (--dataset; copies have to keep modification times), or plan again if it changed", err)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "shard %d is not done: the disk of %s or that of %s is full; free some space, or name another directory with --build-dir, and %s: %w", i, c.BuildDir, c.Store, again, err)
	}
	return exit.With(exit.System, fmt.Errorf("shard %d is not done: %w", i, err))
}
