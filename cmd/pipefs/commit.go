package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/shard"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

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
		}, remoteFlags(&c.remote), rarely([]cli.Flag{
			opt("build-dir", "DIR", "~/.cache/pipefs/build", place(intoString(&c.buildDir)), "build packs for a bucket in this directory"),
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
func openPlan(ctx context.Context, a remote.Access, url string) (p *shard.Plan, place blob.Objects, dir string, err error) {
	dir, id, err := shard.SplitURL(url)
	if err != nil {
		return nil, nil, "", exit.With(exit.Usage, err)
	}
	if place, err = objectsOf(ctx, a, dir); err != nil {
		return nil, nil, "", err
	}
	p, err = shard.Open(ctx, place, id)
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
	p, _, dir, err := openPlan(ctx, c.remote, c.url)
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
	c.store = dir
	if c.first >= 0 {
		return resetShards(ctx, env, c, p)
	}
	began := time.Now()
	bar := terminal.NewProgress(env.stderr, "reading markers", p.Shards)
	read := 0
	o := shard.CommitOptions{
		CommitOptions: store.CommitOptions{FS: vfs.OS, IndexDir: mountd.IndexDir(c.remote, dir), Logger: quiet(env)},
		AllowFailed:   c.allowFailed,
		Progress:      func() { read++; bar.Reach(read) },
	}
	var r *shard.Committed
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
			fmt.Fprintf(env.stdout, ", among them those of the shards that are not packed: %s", shard.Ranges(r.Missing))
		}
		fmt.Fprintln(env.stdout, "; the next plan has them again")
		for _, f := range r.Failures {
			fmt.Fprintf(env.stdout, "  %s: %s\n", f.Path, f.Reason)
		}
	}
	if r.Faults > 0 {
		fmt.Fprintf(env.stdout, "%s no codec can read; kept as they are: pipefs info %s lists them\n", human.Plural(int(r.Faults), "sample that", "samples that"), shellWord(dir))
	}
	fmt.Fprintf(env.stdout, "mount it with: pipefs mount %s MNT\n", shellWord(dir))
	return nil
}

func resetShards(ctx context.Context, env *environ, c *commitConfig, p *shard.Plan) error {
	files, done, err := mountd.OpenFiles(ctx, c.remote, c.store, remote.Options{Log: quiet(env)})
	if err != nil {
		return err
	}
	defer done()
	n, err := p.Reset(ctx, c.store, files, c.first, c.last)
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
	case errors.Is(err, shard.ErrIncomplete):
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
