package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/shard"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/terminal"
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
			opt("shards", "N", "", intoInt(&c.shards, 1, shard.MaxShards), "make this many shards of about equal size"),
			opt("shard-bytes", "SIZE", "256MB", intoSize(&c.shardBytes, 1), "put this much of the dataset into a shard"),
		}, what, []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &c.asJSON, Usage: "print JSON"},
		}, remoteFlags(&c.remote), rarely([]cli.Flag{
			opt("build-dir", "DIR", "~/.cache/pipefs", place(intoString(&c.buildDir)), "build the plan in this directory; it takes about 200 bytes per file"),
		}...), seldom),
		Action: takes(2, 2, func(ctx context.Context, args []string) error {
			c.dataset, c.store = args[0], args[1]
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
	d, err := openDataset(ctx, env, c.remote, c.dataset, source.Options{NoFollow: c.noFollow, Log: quiet(env)})
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
	bar := terminal.NewProgress(env.stderr, "planning", -1)
	m.Warn, m.Progress = left.add, func(n int64) { bar.Reach(int(n)) }
	p, err := m.Make(ctx)
	bar.Done()
	switch {
	case errors.Is(err, shard.ErrNothing):
		return c.tellNothing(env, left.n)
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; nothing was planned")
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "planning: the disk of %s or that of %s is full; make room, or name another directory with --build-dir: %w", how.BuildDir, c.store, err)
	case err != nil:
		return exit.With(exit.System, fmt.Errorf("planning %s: %w", c.dataset, err))
	}
	return c.tell(env, p, left.n)
}

// tellNothing says that there is nothing to plan.
func (c *planConfig) tellNothing(env *environ, unread int) error {
	if c.asJSON {
		return terminal.PrintJSON(env.stdout, planReport{})
	}
	fmt.Fprintf(env.stdout, "%s has all of %s already: there is nothing to pack, and no plan was made\n", c.store, c.dataset)
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

func (c *planConfig) tell(env *environ, p *shard.Plan, unread int) error {
	url := shard.URL(c.store, p.ID)
	memory, disk := p.Needs()
	if c.asJSON {
		return terminal.PrintJSON(env.stdout, planReport{url, p.Shards, p.Files, p.Dirs, p.Tombstones, p.Bytes, unread, memory, disk})
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
	for _, a := range c.remote.Flags() {
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
