package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/export"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/transcode"
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
	bar := human.NewProgress(env.stderr, "objects listed", -1)
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

func fidelityCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "fidelity", ArgsUsage: "MNT [K]", Category: everyday, Usage: "show or set the scan level of MNT/current",
		Description: "MNT/current is a link to one of MNT/scan1 … MNT/scan10. Moving it affects files that are opened through it afterwards.",
		UsageText: `pipefs fidelity ~/m
pipefs fidelity ~/m 5      # five scans of each image; scan5 means the same`,
		Action: takes(1, 2, func(ctx context.Context, args []string) error {
			request := control.Request{Op: control.OpFidelity}
			if len(args) == 2 {
				k, err := fidelityOf(args[1])
				if err != nil {
					return err
				}
				request.Scans = k
			}
			reply, err := ask(ctx, args[0], request)
			if err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, reply.Current)
			return nil
		}),
	}
}

// fidelityOf reads a fidelity: a number, or the name of a scan view.
func fidelityOf(arg string) (int, error) {
	views := make([]string, mountd.MaxFidelity)
	for k := range views {
		views[k] = mountd.ScanView(k + 1)
	}
	if k := slices.Index(views, arg); k >= 0 {
		return k + 1, nil
	}
	k, err := strconv.Atoi(arg)
	switch {
	case err == nil && k >= 1 && k <= mountd.MaxFidelity:
		return k, nil
	case err == nil:
		return 0, exit.Errorf(exit.Usage, "fidelity %d is not a number from 1 to %d; the nearest is %d", k, mountd.MaxFidelity, min(max(k, 1), mountd.MaxFidelity))
	}
	return 0, exit.Errorf(exit.Usage, "%q is not a fidelity: give a number from 1 to %d, or a view from scan1 to scan%[2]d%s", arg, mountd.MaxFidelity, question(transcode.Nearest(arg, views...)))
}

func warmupCommand(env *environ) *cli.Command {
	w := &export.Warmup{Stdin: env.stdin, Stderr: env.stderr}
	var list string
	return &cli.Command{
		Name: "warmup", ArgsUsage: "MNT VIEW", Category: measuring, Usage: "preload a view into the caches",
		Description: "Reads each file of the view once, with as many readers as help. This fills the disk cache of buckets, stores prepared data, and loads what fits into memory. Files that are cached already cost little.",
		UsageText: `pipefs warmup ~/m scan5      # before the training begins
pipefs warmup ~/m scan5 --list fold3.txt`,
		Flags: []cli.Flag{
			opt("list", "FILE", "", intoString(&list), "read only the files named in FILE, one per line, relative to the view; - is standard input"),
			opt("workers", "N", "as many as help", intoInt(&w.Workers, 1, 1024), "read this many files at once"),
			&cli.BoolFlag{Name: "json", Destination: &w.Failures.AllNames, Usage: "print JSON, with the names of all files that failed"},
		},
		Action: takes(2, 2, func(ctx context.Context, args []string) error {
			if err := w.Open(args[0], args[1]); err != nil {
				return err
			}
			started := time.Now()
			if err := w.Run(ctx, list); err != nil && ctx.Err() == nil {
				return err
			}
			return tellWarmup(ctx, env, w, filepath.Join(args[0], args[1]), time.Since(started))
		}),
	}
}

func tellWarmup(ctx context.Context, env *environ, w *export.Warmup, view string, took time.Duration) error {
	w.Failures.Tell(env.stderr, "not read")
	if w.Failures.AllNames {
		if err := human.PrintJSON(env.stdout, struct {
			Files    int64            `json:"files"`
			Bytes    int64            `json:"bytes"`
			Failed   int64            `json:"failed"`
			Seconds  float64          `json:"seconds"`
			Failures []*human.Failure `json:"failures"`
		}{w.Files.Load(), w.Bytes.Load(), w.Failed.Load(), took.Seconds(), w.Failures.List}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(env.stdout, "read %s of %s, %s, in %s\n", human.Plural(w.Files.Load(), "file", "files"), view, human.Size(w.Bytes.Load()), took.Round(100*time.Millisecond))
	}
	switch {
	case ctx.Err() != nil:
		return exit.Errorf(exit.Interrupted, "interrupted; the same command reads what is warm again, which is quick, and then the rest")
	case w.Failed.Load() > 0:
		return exit.Errorf(exit.System, "%s could not be read", human.Plural(w.Failed.Load(), "file", "files"))
	case w.Files.Load() == 0:
		fmt.Fprintf(env.stderr, "pipefs: note: there is no file to read in %s\n", view)
	}
	return nil
}
