package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/terminal"
)

func refreshCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "refresh", ArgsUsage: "MNT", Category: everyday, Usage: "switch a mount to the latest data of its source",
		Description: "A mount of a store shows one generation of the store; this switches it to the latest one. A mount of a bucket lists the bucket again, or reads its --manifest again. A mount of a directory that cannot be watched checks the directories that it has listed.\n" +
			"Files that are open keep their bytes, or return ESTALE if those are gone. Epochs that have begun keep their lists. If something cannot be read, the mount continues with what it showed before. mount --refresh does this at an interval.",
		UsageText: `pipefs pack ~/imagenet in.store && pipefs refresh ~/m
pipefs list s3://bucket/data -o data.manifest && pipefs refresh ~/m`,
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			return runRefresh(ctx, env, args[0])
		}),
	}
}

// refreshEvery is how often the daemon is asked how far it is.
const refreshEvery = 100 * time.Millisecond

func runRefresh(ctx context.Context, env *environ, mnt string) error {
	bar := terminal.NewProgress(env.stderr, "objects listed", -1)
	defer bar.Done()
	began := time.Now()
	number := 0
	for {
		reply, err := ask(ctx, mnt, control.Request{Op: control.OpRefresh, Refresh: number})
		if err != nil {
			return err
		}
		r := reply.Refresh
		if r == nil {
			return exit.Errorf(exit.System, "the daemon of %s did not say what it does", mnt)
		}
		if r.Done {
			bar.Done()
			return tellRefresh(env, r, time.Since(began))
		}
		number = r.Number
		bar.Reach(int(r.Listed))
		select {
		case <-ctx.Done():
			return exit.Errorf(exit.Interrupted, "interrupted; the daemon goes on looking for what is newer")
		case <-time.After(refreshEvery):
		}
	}
}

func tellRefresh(env *environ, r *control.Refresh, took time.Duration) error {
	in := took.Round(time.Millisecond)
	if g := r.Store; g != nil && g.Newer {
		fmt.Fprintf(env.stdout, "generation %d, before %d: %s came, %s changed, %s went, in %s\n",
			g.Now, g.Before, human.Plural(g.Came, "file", "files"), human.Count(g.Changed), human.Count(g.Went), in)
	} else if g != nil {
		fmt.Fprintf(env.stdout, "the store is up to date: generation %d\n", g.Now)
	}
	if r.Error != "" {
		return exit.Errorf(exit.System, "%s (the mount goes on with what it showed before)", r.Error)
	}
	switch {
	case r.Before > 0 || r.Now > 0:
		fmt.Fprintf(env.stdout, "listed %s in %s; before there were %s\n", human.Plural(r.Now, "object", "objects"), in, human.Count(r.Before))
	case r.Store == nil:
		fmt.Fprintf(env.stdout, "looked through the directories that were listed, in %s\n", in)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(env.stdout, "%s left out, because their names are no paths; the log says which\n", human.Plural(r.LeftOut, "object is", "objects are"))
	}
	return nil
}
