package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/terminal"
)

func explainCommand(env *environ) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name: "explain", ArgsUsage: "MNT/VIEW/FILE", Category: everyday, Usage: "show how one file of a mount is made",
		Description: "Shows the sample behind the file, the steps that apply, the steps that are left out and why, where the bytes come from, and what a random view drew. Nothing is computed for the answer.",
		UsageText: `pipefs explain ~/m/resize256-bmp/train/cat/1.bmp
pipefs explain ~/m/.draw/7/0/rrc224-hflip-npy/train/cat/1.npy     # which box was cropped`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		},
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			mnt, path, err := belowMount(args[0])
			if err != nil {
				return err
			}
			reply, err := ask(ctx, mnt, control.Request{Op: control.OpExplain, Path: path})
			if err != nil {
				return err
			}
			if reply.Explained == nil {
				return fmt.Errorf("the daemon of %s explained nothing", mnt)
			}
			if asJSON {
				return terminal.PrintJSON(env.stdout, reply.Explained)
			}
			printExplanation(env.stdout, reply.Explained)
			return nil
		}),
	}
}

// belowMount finds the mount that a path lies in, and the rest of the path. The last name is not
// looked up: in a random view that would draw.
func belowMount(given string) (mnt, rest string, err error) {
	path, err := filepath.Abs(given)
	if err != nil {
		return "", "", err
	}
	rest = filepath.Base(path)
	dir, err := mounts.Resolve(filepath.Dir(path))
	for path = filepath.Dir(path); errors.Is(err, fs.ErrNotExist); dir, err = mounts.Resolve(path) {
		rest, path = filepath.Join(filepath.Base(path), rest), filepath.Dir(path)
	}
	if err != nil {
		return "", "", exit.With(exit.Mount, err)
	}
	at, err := mounts.Holding(dir)
	if err != nil {
		return "", "", err
	}
	if at == nil || !at.Ours() {
		return "", "", exit.Errorf(exit.Mount, "%s is not below a pipefs mount (pipefs mounts lists them); write MNT/VIEW/FILE", given)
	}
	below, err := filepath.Rel(at.Mountpoint, filepath.Join(dir, rest))
	return at.Mountpoint, below, err
}

func printExplanation(w io.Writer, e *control.Explanation) {
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-9s %s\n", name, text)
		}
	}
	row("view", e.View)
	row("sample", e.Sample)
	row("header", e.Is)
	if e.Unchanged != "" {
		row("unchanged", e.Unchanged)
	}
	for _, s := range e.Steps {
		if s.LeftOut != "" {
			row("left out", s.Step+": "+s.LeftOut)
		} else {
			row("step", s.Step+": "+s.Makes)
		}
	}
	if d := e.Draw; d != nil {
		text := fmt.Sprintf("seed %d, epoch %d", d.Seed, d.Epoch)
		if d.Repeat > 0 {
			text += fmt.Sprintf(", repeat %d", d.Repeat)
		}
		row("draw", text)
	}
	if e.Computed > 0 {
		row("read from", fmt.Sprintf("%s; then %s computed", e.From, human.Plural(e.Computed, "step is", "steps are")))
	} else {
		row("read from", e.From)
	}
	if e.Bytes != nil {
		row("size", human.Plural(int(*e.Bytes), "byte", "bytes"))
	}
	row("note", e.Note)
}
