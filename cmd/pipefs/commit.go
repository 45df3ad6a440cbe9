package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// planConfig is what a plan is made of.
type planConfig struct {
	packConfig
	shards     int
	shardBytes int64
	asJSON     bool
}

func planCommand(env *environ) *cli.Command {
	c := &planConfig{packConfig: packConfig{seed: -1}, shardBytes: 256e6}
	what, seldom := storedFlags(&c.packConfig)
	return &cli.Command{
		Name: "plan", ArgsUsage: "DATASET STORE", Category: stores, Usage: "divide the packing of a dataset among machines",
		Description: "Lists the dataset, and cuts what the store lacks into shards. Any machine can pack any shard, in any order and repeatedly, with the same result: as a job array of Slurm, an indexed job of Kubernetes, AWS Batch, or Ray. When all shards are packed, pipefs commit adds them to the store at once.\n" +
			"Planning again adds what is new or changed, and removes what is gone.",
		UsageText: `pipefs plan s3://bucket/imagenet s3://bucket/in.store
pipefs plan --shards 1000 --record-images 1024 /nfs/imagenet /nfs/in.store
pipefs pack --plan URL --shard 0..9      # pack ten shards here; pipefs plan prints URL`,
		Flags: slices.Concat([]cli.Flag{
			opt("shards", "N", "", intoInt(&c.shards, 1, packing.MaxShards), "make this many shards of about equal size"),
			opt("shard-bytes", "SIZE", "256MB", intoSize(&c.shardBytes, 1), "put this much of the dataset into a shard"),
		}, what, []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &c.asJSON, Usage: "print JSON"},
		}, remoteFlags(&c.Remote), rarely([]cli.Flag{
			opt("build-dir", "DIR", "~/.cache/pipefs", place(intoString(&c.BuildDir)), "build the plan in this directory; it takes about 200 bytes per file"),
		}...), seldom),
		Action: takes(2, 2, func(ctx context.Context, args []string) error {
			c.Dataset, c.Store = args[0], args[1]
			if err := c.check(); err != nil {
				return err
			}
			return runPlan(ctx, env, c)
		}),
	}
}

func runPlan(ctx context.Context, env *environ, c *planConfig) error {
	if err := c.resolve(ctx, env, "planned"); err != nil {
		return err
	}
	how := c.config(env)
	base, done, err := how.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer done()
	d, err := c.openDataset(ctx, env)
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer d.Close()
	m, err := how.Making(ctx, base, d)
	if err != nil {
		return err
	}
	m.Shards, m.ShardBytes = c.shards, c.shardBytes
	left := warnings{env: env}
	bar := human.NewProgress(env.stderr, "planning", -1)
	m.Warn, m.Progress = left.add, func(n int64) { bar.Reach(int(n)) }
	p, err := m.Make(ctx)
	bar.Done()
	switch {
	case errors.Is(err, packing.ErrNothing):
		return c.tellNothing(env, left.n)
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; nothing was planned")
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "planning: the disk of %s or that of %s is full; free some space, or name another directory with --build-dir: %w", how.BuildDir, c.Store, err)
	case err != nil:
		return exit.With(exit.System, fmt.Errorf("planning %s: %w", c.Dataset, err))
	}
	return c.tell(env, p, left.n)
}

// tellNothing says that there is nothing to plan.
func (c *planConfig) tellNothing(env *environ, unread int) error {
	if c.asJSON {
		return human.PrintJSON(env.stdout, planReport{})
	}
	fmt.Fprintf(env.stdout, "%s has all of %s already: there is nothing to pack, and no plan was made\n", c.Store, c.Dataset)
	c.tellUnread(env, unread)
	return nil
}

func (c *planConfig) tellUnread(env *environ, unread int) {
	if unread > 0 {
		fmt.Fprintf(env.stdout, "%s could not be listed; what the store has of them stays\n", human.Plural(unread, "file or directory", "files and directories"))
	}
}

// planReport is what --json prints.
type planReport struct {
	Plan       string `json:"plan"` // URL; "" where there is nothing to pack
	Shards     int    `json:"shards"`
	Files      int64  `json:"files"`
	Dirs       int64  `json:"dirs"`
	Tombstones int64  `json:"tombstones"`
	Bytes      int64  `json:"bytes"`
	Unlisted   int    `json:"unlisted"`
	Memory     int64  `json:"worker_memory_bytes"`
	Disk       int64  `json:"worker_disk_bytes"`
}

func (c *planConfig) tell(env *environ, p *packing.Plan, unread int) error {
	url := packing.URL(c.Store, p.ID)
	memory, disk := p.Needs()
	if c.asJSON {
		return human.PrintJSON(env.stdout, planReport{url, p.Shards, p.Files, p.Dirs, p.Tombstones, p.Bytes, unread, memory, disk})
	}
	out := env.stdout
	fmt.Fprintf(out, "planned %s: %s and %s to pack, %s\n", human.Plural(p.Shards, "shard", "shards"),
		human.Plural(p.Files, "file", "files"), human.Plural(p.Dirs, "directory", "directories"), human.Size(p.Bytes))
	if p.Tombstones > 0 {
		fmt.Fprintf(out, "%s the store has, and the dataset no longer\n", human.Plural(p.Tombstones, "entry", "entries"))
	}
	c.tellUnread(env, unread)
	fmt.Fprintf(out, "a worker takes at most %s of memory, but for pictures of very many pixels, and %s in its --build-dir\n", human.Size(memory), human.Size(disk))
	fmt.Fprintf(out, "the plan is %s\n", url)
	options := ""
	for _, a := range c.Remote.Flags() {
		options += " " + shellWord(a)
	}
	which := "I"
	if p.Shards == 1 {
		which = "0"
	}
	fmt.Fprintf(out, "pack shards 0 to %d on any machines: pipefs pack%s --plan %s --shard %s\n", p.Shards-1, options, shellWord(url), which)
	fmt.Fprintf(out, "and then, once: pipefs commit%s %s\n", options, shellWord(url))
	return nil
}

// commitConfig is how a plan is committed.
type commitConfig struct {
	packConfig
	url         string // of the plan
	allowFailed int64
	first, last int // shards to be packed again; none: first is -1
	missing     bool
}

func commitCommand(env *environ) *cli.Command {
	c := &commitConfig{first: -1}
	return &cli.Command{
		Name: "commit", ArgsUsage: "URL", Category: stores, Usage: "add the packed shards of a plan to the store",
		Description: "URL is printed by pipefs plan. All shards must be packed; otherwise the missing ones are listed, and nothing is changed. Packs are not read. Committing again is not an error.\n" +
			"Mounts show the new data after pipefs refresh. If the store was changed after the plan was made, the plan is stale: plan again, which plans only what is missing.",
		UsageText: `pipefs commit s3://bucket/in.store/plans/5f….plan
pipefs commit --allow-failed 20 URL
pipefs commit --reset 7 URL && pipefs pack --plan URL --shard 7     # replace a damaged shard`,
		Flags: slices.Concat([]cli.Flag{
			opt("allow-failed", "N", "0", intoInt(&c.allowFailed, 0, 1<<62), "commit even if up to N files are missing; the next plan has them again"),
			opt("reset", "I|A..B", "", intoRange(&c.first, &c.last), "remove what these shards have packed, so that they can be packed again"),
			&cli.BoolFlag{Name: "missing", Destination: &c.missing, Usage: "print the numbers of the shards that are not packed, and change nothing"},
		}, remoteFlags(&c.Remote), rarely([]cli.Flag{
			opt("build-dir", "DIR", "~/.cache/pipefs/build", place(intoString(&c.BuildDir)), "build packs for a bucket in this directory"),
		}...)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if c.url, err = remote.Place(args[0]); err != nil {
				return err
			}
			return runCommit(ctx, env, c)
		}),
	}
}

// openPlan opens the plan at a URL, and the place of its store.
func openPlan(ctx context.Context, a remote.Access, url string) (p *packing.Plan, place blob.Objects, dir string, err error) {
	dir, id, err := packing.SplitURL(url)
	if err != nil {
		return nil, nil, "", exit.With(exit.Usage, err)
	}
	if place, err = objectsOf(ctx, a, dir); err != nil {
		return nil, nil, "", err
	}
	p, err = packing.Open(ctx, place, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, "", exit.Errorf(exit.System, "there is no plan %s: pipefs plan prints the name of the one that it makes", url)
	}
	return p, place, dir, bucketError(err)
}

// objectsOf is the place at a path or a URL.
func objectsOf(ctx context.Context, a remote.Access, dir string) (blob.Objects, error) {
	if !remote.Is(dir) {
		place, err := blob.OpenDirectory(dir)
		return place, exit.With(exit.System, err)
	}
	place, err := a.Connect(ctx, dir)
	return place, bucketError(err)
}

func runCommit(ctx context.Context, env *environ, c *commitConfig) error {
	p, _, dir, err := openPlan(ctx, c.Remote, c.url)
	if err != nil {
		return err
	}
	if c.missing {
		missing, err := p.Missing(ctx)
		for _, shard := range missing {
			fmt.Fprintln(env.stdout, shard)
		}
		return bucketError(err)
	}
	c.Store = dir
	if c.first >= 0 {
		return resetShards(ctx, env, c, p)
	}
	began := time.Now()
	bar := human.NewProgress(env.stderr, "reading markers", p.Shards)
	read := 0
	o := packing.CommitOptions{
		CommitOptions: store.CommitOptions{FS: vfs.OS, IndexDir: mountd.IndexDir(c.Remote, dir), Logger: quiet(env)},
		AllowFailed:   c.allowFailed,
		Progress:      func() { read++; bar.Reach(read) },
	}
	var r *packing.Committed
	err = c.config(env).Change(ctx, func(files vfs.FS, flush func() error) (err error) {
		read = 0
		o.FS, o.Flush = files, flush
		r, err = p.Commit(ctx, dir, o)
		return err
	})
	bar.Done()
	if err != nil {
		return commitError(dir, err)
	}
	if r.Already {
		fmt.Fprintf(env.stdout, "%s is committed already\n", c.url)
		return nil
	}
	fmt.Fprintf(env.stdout, "committed %s of %s, %s, %s removed in %s\n", human.Plural(int(r.Files), "file", "files"), human.Plural(p.Shards-len(r.Missing), "shard", "shards"),
		human.Size(r.Bytes), human.Count(r.Tombstones), time.Since(began).Round(100*time.Millisecond))
	fmt.Fprintf(env.stdout, "the store has %s in %s, %s\n", human.Plural(int(r.Stats.Samples), "file", "files"), human.Plural(r.Stats.Packs, "pack", "packs"), human.Size(r.Stats.PackBytes))
	if r.Left > 0 {
		fmt.Fprintf(env.stdout, "%s left out", human.Plural(int(r.Left), "entry of the plan was", "entries of the plan were"))
		if len(r.Missing) > 0 {
			fmt.Fprintf(env.stdout, ", among them those of the shards that are not packed: %s", packing.Ranges(r.Missing))
		}
		fmt.Fprintln(env.stdout, "; the next plan has them again")
		for _, f := range r.Failures {
			fmt.Fprintf(env.stdout, "  %s: %s\n", human.Line(f.Path), human.Line(f.Reason))
		}
	}
	if r.Faults > 0 {
		fmt.Fprintf(env.stdout, "%s no codec can read; kept as they are: pipefs info %s lists them\n", human.Plural(int(r.Faults), "sample that", "samples that"), shellWord(dir))
	}
	fmt.Fprintf(env.stdout, "mount it with: pipefs mount %s MNT\n", shellWord(dir))
	return nil
}

func resetShards(ctx context.Context, env *environ, c *commitConfig, p *packing.Plan) error {
	files, done, err := mountd.OpenFiles(ctx, c.Remote, c.Store, remote.Options{Log: quiet(env)})
	if err != nil {
		return err
	}
	defer done()
	n, err := p.Reset(ctx, c.Store, files, c.first, c.last)
	if err != nil {
		return bucketError(err)
	}
	fmt.Fprintf(env.stdout, "removed %s of %s; pack again with: pipefs pack --plan %s --shard I\n", human.Plural(n, "object", "objects"), human.Plural(c.last-c.first+1, "shard", "shards"), shellWord(c.url))
	return nil
}

// commitError tells how to go on.
func commitError(dir string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; nothing was committed, and the same command begins anew")
	case errors.Is(err, packing.ErrIncomplete):
		return exit.With(exit.System, err)
	case errors.Is(err, store.ErrStale):
		return exit.Errorf(exit.System, "%w. Nothing was changed; plan again (pipefs plan with the same dataset and store), which plans what is still missing", err)
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs writes to %s; nothing was changed. Wait for it to end, and run the same command again", dir)
	case errors.Is(err, vfs.ErrConflict):
		return exit.Errorf(exit.System, "%s: %w; nothing was changed. Run the same command again", dir, remote.ErrOtherWriter)
	}
	return exit.With(exit.System, fmt.Errorf("committing to %s: %w", dir, err))
}
