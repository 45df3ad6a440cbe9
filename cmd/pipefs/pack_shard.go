package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/shard"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode/codecs"
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
func (w *shardConfig) run(ctx context.Context, env *environ, args []string, planned []*option) error {
	if len(args) > 0 {
		return exit.Errorf(exit.Usage, "the plan knows its dataset and its store: leave out %s; --dataset says where the dataset is on this machine", strings.Join(args, " "))
	}
	for _, o := range planned {
		if o.isSet() {
			return exit.Errorf(exit.Usage, "the plan says what is stored: leave out --%s, or plan again with it", o.name)
		}
	}
	if err := w.which(); err != nil {
		return err
	}
	place, id, err := shard.SplitURL(w.plan)
	if err == nil {
		place, err = remote.Place(place)
	}
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	w.pack.store = place
	objects, err := mountd.Connect(ctx, w.pack.remote, place, quiet(env))
	if err != nil {
		return err
	}
	p, err := shard.Open(ctx, objects, id)
	if err != nil {
		return bucketError(err)
	}
	if w.last >= p.Shards {
		return exit.Errorf(exit.Usage, "there is no shard %d: the plan has shards 0 to %d", w.last, p.Shards-1)
	}
	worker, done, err := w.worker(ctx, env, p)
	if err != nil {
		return err
	}
	defer done()
	worker.Place = objects
	for i := w.first; i <= w.last; i++ {
		if err := w.packShard(ctx, env, worker, i); err != nil {
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

// worker opens the dataset. What it returns ends that.
func (w *shardConfig) worker(ctx context.Context, env *environ, p *shard.Plan) (_ *shard.Worker, done func(), err error) {
	c := w.pack
	c.originals, c.represent = p.Options.Originals, p.Options.Represent
	r := codecs.New(p.Options.Limits, optionsOf(&p.Options))
	steps, decoders := stepsOf(r, c.represent)
	if !maps.Equal(steps, p.Steps) || !maps.Equal(decoders, p.Decoders) {
		return nil, nil, exit.Errorf(exit.Usage, "this pipefs makes other bytes than the one that planned (%s); pack all shards with the same version of pipefs, or plan again with this one", differing(steps, p.Steps, decoders, p.Decoders))
	}
	if err := c.holdBuildDir(env); err != nil {
		return nil, nil, err
	}
	memory, _ := p.Needs()
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // none is set by GOMEMLIMIT
		debug.SetMemoryLimit(memory)
	}
	c.dataset = p.Dataset
	if w.dataset != "" {
		c.dataset = w.dataset
	}
	if remote.Is(c.dataset) != remote.Is(p.Dataset) {
		return nil, nil, exit.Errorf(exit.Usage, "the plan is of %s, which %s cannot take the place of: in one, versions of files are told apart as in the other they are not", p.Dataset, c.dataset)
	}
	worker := &shard.Worker{Plan: p, Build: c.buildDir, Options: store.PackOptions{Workers: c.workers, Logger: quiet(env)}}
	done = func() {}
	var d source.Dataset // nothing of it is asked where it is in a bucket
	if remote.Is(c.dataset) {
		if worker.Objects, err = mountd.Connect(ctx, c.remote, c.dataset, quiet(env)); err != nil {
			return nil, nil, err
		}
		if c.workers == 0 { // most of them wait for the network; what they take together is bounded
			worker.Options.Workers = max(16, 4*runtime.GOMAXPROCS(0))
		}
	} else if d, err = w.openDirectory(ctx, env, p.Options.NoFollow); err != nil {
		return nil, nil, err
	} else {
		done = func() { _ = d.Close() }
	}
	what := whatIsPacked(env, c, d, r)
	worker.Encoder, worker.Verbatim = what, what.Verbatim
	if d != nil {
		worker.Directory = shard.InDirectory(what)
	}
	return worker, done, nil
}

func (w *shardConfig) openDirectory(ctx context.Context, env *environ, noFollow bool) (source.Dataset, error) {
	at := w.pack.dataset
	if _, err := filledDataset(ctx, env, at, "packed"); err != nil {
		return nil, fmt.Errorf("%w; --dataset DIR says where the dataset is on this machine", err)
	}
	d, err := source.Open(at, source.Options{NoFollow: noFollow, Log: quiet(env)})
	return d, exit.With(exit.System, err)
}

// differing names the implementations that differ.
func differing(pairs ...map[string]string) string {
	var names []string
	for i := 0; i < len(pairs); i += 2 {
		for _, m := range pairs[i : i+2] {
			for name := range m {
				if pairs[i][name] != pairs[i+1][name] {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func (w *shardConfig) packShard(ctx context.Context, env *environ, worker *shard.Worker, i int) error {
	started := time.Now()
	told := &packing{env: env}
	worker.Warn = told.warn
	bar := newProgress(env, fmt.Sprintf("packing shard %d", i), -1)
	worker.Options.Progress = func(p store.Progress) { bar.reach(int(p.Files + p.Failed)) }
	m, err := worker.Pack(ctx, i)
	bar.done()
	if err != nil {
		return w.failed(i, err)
	}
	if m.Before {
		fmt.Fprintf(env.stdout, "shard %d is done already\n", i)
		return nil
	}
	fmt.Fprintf(env.stdout, "shard %d is done: %s, %s read, %s in %s\n", i, plural(m.Files, "file", "files"), formatSize(m.Bytes),
		plural(len(m.Packs), "pack", "packs"), time.Since(started).Round(100*time.Millisecond))
	if m.Failed > 0 {
		fmt.Fprintf(env.stdout, "%s left out: no longer as planned, or not to be stored; pipefs commit lists them\n", plural(m.Failed, "file was", "files were"))
	}
	return nil
}

// failed tells how to go on.
func (w *shardConfig) failed(i int, err error) error {
	again := "run the same command again"
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; shard %d is not done. %s", i, again)
	case errors.Is(err, shard.ErrDiffers):
		return exit.Errorf(exit.System, "shard %d: %w. If it is damaged, delete it, and %s. Else a file of the dataset was changed or removed between two runs, or the versions of pipefs differ: plan again, and pack that plan", i, err, again)
	case errors.Is(err, shard.ErrNotThere):
		return exit.Errorf(exit.System, "%w. Say where the dataset is on this machine (--dataset; copies have to keep modification times), or plan again if it changed", err)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "shard %d is not done: the disk of %s or that of %s is full; make room, or name another directory with --build-dir, and %s: %w", i, w.pack.buildDir, w.pack.store, again, err)
	}
	return exit.With(exit.System, fmt.Errorf("shard %d is not done: %w", i, err))
}
