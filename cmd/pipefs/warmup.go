package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/internal/warmup"
)

func warmupCommand(env *environ) *cli.Command {
	w := &warmup.Warmup{Stdin: env.stdin, Stderr: env.stderr}
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

func tellWarmup(ctx context.Context, env *environ, w *warmup.Warmup, view string, took time.Duration) error {
	w.Failures.Tell(env.stderr, "not read")
	if w.Failures.AllNames {
		if err := terminal.PrintJSON(env.stdout, struct {
			Files    int64               `json:"files"`
			Bytes    int64               `json:"bytes"`
			Failed   int64               `json:"failed"`
			Seconds  float64             `json:"seconds"`
			Failures []*terminal.Failure `json:"failures"`
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
