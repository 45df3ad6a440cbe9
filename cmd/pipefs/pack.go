package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/packing"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/store"
)

// packConfig is all that a packing can be told.
type packConfig struct {
	packing.Config
	classes string // list of classes, see source.Classes; or empty
	seed    int64  // -1: none was given
	l3      l3Config
}

func packCommand(env *environ) *cli.Command {
	c := &packConfig{seed: -1}
	w := &shardConfig{pack: c, first: -1}
	what, seldom := storedFlags(c)
	return &cli.Command{
		Name: "pack", ArgsUsage: "[DATASET STORE]", Category: stores, Usage: "prepare a dataset ahead of time, as a store",
		Description: "A store holds each JPEG scan by scan, losslessly, and every other file as it is. Mount it alone (pipefs mount STORE MNT) or beside its dataset (pipefs mount --store STORE DATASET MNT), on any number of machines. Packing again updates the store, and continues an interrupted run.\n" +
			"STORE may be a URL. Packs are then built in a local directory of about 1.5GB and uploaded. To pack on many machines, see pipefs plan.",
		UsageText: `pipefs pack ~/imagenet /data/in.store                                   # for random reads
pipefs pack --record-images 1024 --order shuffle ~/imagenet /nfs/in.store    # for slow disks
pipefs pack --record-images 1024 ~/imagenet s3://bucket/in.store
pipefs pack --represent l3 --originals drop ~/photos-png /data/ph.store      # smaller and faster PNG`,
		Flags: slices.Concat(what, []cli.Flag{
			opt("plan", "URL", "", intoString(&w.plan), "pack shards of this plan, which pipefs plan made, instead of DATASET"),
			opt("shard", "I|A..B", "JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID or AWS_BATCH_JOB_ARRAY_INDEX", intoRange(&w.first, &w.last), "pack shard I, or shards A to B; the first one is 0"),
			opt("dataset", "DATASET", "", placeOrURL(intoString(&w.dataset)), "name the plan's dataset on this machine, if its path differs"),
			opt("workers", "N", "one a core", intoInt(&c.Workers, 1, 4096), "encode this many samples at once"),
		}, remoteFlags(&c.Remote), rarely([]cli.Flag{
			opt("build-dir", "DIR", "~/.cache/pipefs", place(intoString(&c.BuildDir)), "build packs for a bucket or a plan in this directory"),
		}...), seldom),
		Before: func(ctx *cli.Context) error {
			if f := firstGiven(ctx, slices.Concat(what, seldom)); f != "" && w.plan != "" {
				return exit.Errorf(exit.Usage, "the plan says what is stored: leave out --%s, or plan again with it", f)
			}
			return nil
		},
		Action: takes(0, 2, func(ctx context.Context, args []string) error {
			if w.plan != "" {
				return w.run(ctx, env, args)
			}
			if len(args) != 2 {
				return exit.Errorf(exit.Usage, "pack takes a dataset and a store: pipefs pack DATASET STORE; or --plan, and neither\n(pipefs pack --help shows examples)")
			}
			if w.given() {
				return exit.Errorf(exit.Usage, "--shard and --dataset are of a plan; add --plan URL, which pipefs plan prints, or leave them out")
			}
			c.Dataset, c.Store = args[0], args[1]
			if err := c.check(); err != nil {
				return err
			}
			return runPack(ctx, env, c)
		}),
	}
}

// storedFlags say what a store is to hold. Those that come second are rarely needed.
func storedFlags(c *packConfig) (what, seldom []cli.Flag) {
	return []cli.Flag{
			opt("record-images", "K", "1, or as in the store", intoInt(&c.RecordImages, 1, 1<<20), "store K samples together: 1 for random reads, 1024 for slow disks"),
			opt("order", "path|shuffle", "path, or as in the store", intoChoice(&c.Order, "path", "shuffle"), "order the samples in the store; a mount lists them in this order"),
			opt("originals", "rebuild|keep|drop", "rebuild", intoChoice(&c.Originals, "rebuild", "keep", "drop"), "rebuild JPEG originals from scans, keep all files, or drop them"),
			opt("scans", "K,K,…", "1 to 10, or as in the store", intoLevels(&c.Scans), "store JPEG files for these fidelities only; 10 is always included"),
			classesFlag(&c.classes),
			opt("represent", "l3", "", intoChoice(&c.Represent, "l3"), "also store lossless pictures as L3 files, which decode faster"),
		}, slices.Concat(rarely([]cli.Flag{
			opt("seed", "N", "0", intoInt(&c.seed, 0, math.MaxInt64), "seed --order shuffle"),
			&cli.BoolFlag{Name: "no-follow", Destination: &c.NoFollow, Usage: "refuse symbolic links that lead out of the dataset"},
		}...), rarely(l3Flags(&c.l3, "dense", "fast")...), limitFlags(&c.Limits))
}

// check refuses options that say nothing without others.
func (c *packConfig) check() error {
	if c.l3.given() && c.Represent == "" {
		return exit.Errorf(exit.Usage, "--l3-mode says how L3 files are written: add --represent l3, or leave it out")
	}
	if c.seed >= 0 && c.Order != "shuffle" {
		return exit.Errorf(exit.Usage, "--seed is of the shuffle: add --order shuffle, or leave --seed out")
	}
	return nil
}

// config is what is packed, in the words of package packing.
func (c *packConfig) config(env *environ) *packing.Config {
	p := &c.Config
	p.Log, p.Seed = quiet(env), uint64(max(c.seed, 0))
	if c.l3.given() {
		p.L3 = &c.l3.Options
	}
	p.LowSpace = func(free int64) {
		noter(env.stderr)("packs are built in %s, where only %s are free, and %s may be needed; --build-dir names another directory", p.BuildDir, human.Size(free), human.Size(packing.BuildBytes))
	}
	return p
}

// resolve makes dataset and store what the kernel will call them. done says what is not done with an
// empty dataset.
func (c *packConfig) resolve(ctx context.Context, env *environ, done string) (err error) {
	if c.Dataset, err = filledDataset(ctx, env, c.Remote, c.Dataset, done); err != nil {
		return err
	}
	if c.Store, err = remote.Place(c.Store); err == nil && !remote.Is(c.Store) && mounts.Inside(c.Store, c.Dataset) {
		err = exit.Errorf(exit.Usage, "the store %s lies inside the dataset, which pipefs never writes to; take a directory outside of it", c.Store)
	}
	return err
}

func runPack(ctx context.Context, env *environ, c *packConfig) error {
	if err := askSwapped(ctx, "pack", c.Dataset, c.Store); err != nil {
		return err
	}
	if err := c.resolve(ctx, env, "packed"); err != nil {
		return err
	}
	p := c.config(env)
	w, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	d, err := c.openDataset(ctx, env)
	if err != nil {
		return err
	}
	defer d.Close()
	started := time.Now()
	left := warnings{env: env}
	bar := human.NewProgress(env.stderr, "packing", -1)
	counted := func() {}
	p.Stored = func(files int64) {
		if files == 0 {
			counted = mountd.CountFiles(ctx, d, bar.SetTotal)
		} else { // about as many as there are now: a second listing takes a third of the time of packing again
			bar.SetTotal(int(files))
		}
	}
	report, err := p.Pack(ctx, w, d, func(p store.Progress) { bar.Reach(int(p.Files + p.Skipped + p.Failed)) }, left.add)
	bar.Done()
	counted()
	if err != nil {
		return packError(p, report, err)
	}
	if err := tellPacked(ctx, env, p, report, started); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "mount it with: pipefs mount %s MNT (beside its dataset: pipefs mount --store %[1]s %s MNT)\n", shellWord(c.Store), shellWord(c.Dataset))
	return nil
}

// mostWarnings are shown as they come; the rest is counted.
const mostWarnings = 10

// warnings tell of files that are left out.
type warnings struct {
	env *environ

	mu sync.Mutex
	n  int
}

func (w *warnings) add(path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; w.n <= mostWarnings {
		fmt.Fprintf(w.env.stderr, "pipefs: left out: %s: %s\n", human.Line(path), human.Lines(err.Error()))
	}
}

// packError tells how to go on.
func packError(c *packing.Config, r packing.Report, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted after %s; what was packed is kept, and the same command goes on from there", human.Plural(r.Files+r.Skipped, "file", "files"))
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs pack writes to %s; wait for it to end", c.Store)
	case errors.Is(err, remote.ErrOtherWriter):
		return exit.Errorf(exit.System, "%s: %w; the store is as that one left it. Run the same command again, which packs what is still missing", c.Store, remote.ErrOtherWriter)
	case errors.Is(err, syscall.ENOSPC) && remote.Is(c.Store):
		return exit.Errorf(exit.System, "packing %s: the disk of %s, where packs are until they are put, is full; free some space, or name another directory with --build-dir, and run the same command again, which goes on from what is packed", c.Store, c.BuildDir)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "packing %s: the disk is full; free some space and run the same command again, which goes on from what is packed", c.Store)
	case errors.Is(err, store.ErrNotStore):
		return exit.Errorf(exit.Usage, "%w; take an empty or a new directory", err)
	}
	return fmt.Errorf("packing %s: %w", c.Store, err)
}

// tellPacked tells what was packed, and what the store does not give back on its own, or at a price.
func tellPacked(ctx context.Context, env *environ, c *packing.Config, r packing.Report, started time.Time) error {
	out := env.stdout
	fmt.Fprintf(out, "packed %s, skipped %s unchanged, removed %s\n",
		human.Plural(r.Files, "file", "files"), human.Count(r.Skipped), human.Count(r.Removed))
	fmt.Fprintf(out, "%s read, %s written in %s\n", human.Size(r.Source), human.Size(r.Bytes), time.Since(started).Round(100*time.Millisecond))
	if r.Sent.Files > 0 {
		fmt.Fprintf(out, "%s put into %s, %s\n", human.Plural(r.Sent.Files, "object", "objects"), c.Store, human.Size(r.Sent.Bytes))
	}
	if r.Salvaged > 0 {
		fmt.Fprintf(out, "%s taken over from an interrupted packing\n", human.Plural(r.Salvaged, "record was", "records were"))
	}
	if r.Failed > 0 {
		fmt.Fprintf(out, "%s left out, because of errors of reading\n", human.Plural(r.Failed, "file was", "files were"))
	}
	s, err := openSource(ctx, env, mountd.SourceOptions{Path: c.Store, Remote: c.Remote, Limits: c.Limits})
	if err != nil {
		return err
	}
	defer s.Close()
	if r.Faults > 0 {
		fmt.Fprintf(out, "%s no codec can read; kept as they are:\n", human.Plural(r.Faults, "sample that", "samples that"))
		faults, more := s.Faults(mostWarnings)
		for _, f := range faults {
			fmt.Fprintf(out, "  %s: %s\n", human.Line(f.Path), human.Line(cmp.Or(f.Fault, f.Unread)))
		}
		if more {
			fmt.Fprintf(out, "  and more: pipefs info %s lists them\n", c.Store)
		}
	}
	g, err := s.Gaps()
	if err != nil {
		return err
	}
	if c.Originals == "drop" && g.Describe() != "" {
		human.Note(out, "without the dataset, %s", g.Describe())
	}
	n, err := s.Server.Rebuilt()
	if n > 0 {
		human.Note(out, "without the dataset, original/ rebuilds %s from scans when they are first read, at %s; --originals keep stores the files instead",
			human.Plural(n, "JPEG file", "JPEG files"), survey.RebuildCost)
	}
	if err != nil {
		return err
	}
	// Which samples the usual view spares, their own files tell.
	if s, err := openSource(ctx, env, mountd.SourceOptions{Path: c.Store, Remote: c.Remote, Dataset: c.Dataset}); err == nil {
		defer s.Close()
		if v, err := s.Registry.Parse("resize256-bmp"); err == nil {
			survey.NoteSpared(noter(env.stderr), s.Server.Spares(ctx, v, nil))
		}
	}
	return nil
}
