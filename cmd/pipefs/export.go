package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/export"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// exportConfig is all that an export can be told.
type exportConfig struct {
	mountd.SourceOptions
	out    string // absolute
	view   string
	force  bool
	asJSON bool
}

func exportCommand(env *environ) *cli.Command {
	c := &exportConfig{}
	return &cli.Command{
		Name: "export", ArgsUsage: "STORE|DATASET VIEW OUT", Category: stores, Usage: "write all files of a view into a directory",
		Description: "Writes what a mount shows as MNT/VIEW into plain files, with the permissions and times of the dataset. Nothing is mounted. Files that exist already with the right size and time are skipped, so an interrupted export can be continued.",
		UsageText: `pipefs export /data/in.store original ~/imagenet       # restore the dataset, byte for byte
pipefs export ~/imagenet resize256-jpeg90 ~/imagenet-small
pipefs export ~/imagenet .draw/7/0/rrc224-hflip-npy ~/epoch0     # seed 7, epoch 0`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "force", Destination: &c.force, Usage: "replace files of OUT that differ"},
			opt("workers", "N", "one a core", intoInt(&c.Workers, 1, 4096), "make this many files at once"),
			&cli.BoolFlag{Name: "json", Destination: &c.asJSON, Usage: "print JSON, with the names of all files that failed"},
			opt("dataset", "DIR", "", place(intoString(&c.Dataset)), "name the dataset of a STORE, for originals that the store does not hold"),
		}, slices.Concat(roleFlags(&c.Roles), remoteFlags(&c.Remote), limitFlags(&c.Limits))...),
		Action: takes(3, 3, func(ctx context.Context, args []string) (err error) {
			c.view = args[1]
			if _, err := export.View(codecs.Default(c.Limits), c.view); err != nil {
				return err
			}
			if c.Path, err = remote.Place(args[0]); err != nil {
				return err
			}
			if c.out, err = filepath.Abs(args[2]); err != nil {
				return err
			}
			return runExport(ctx, env, c)
		}),
	}
}

func runExport(ctx context.Context, env *environ, c *exportConfig) error {
	started := time.Now()
	s, err := openSource(ctx, env, c.SourceOptions)
	if err != nil {
		return err
	}
	defer s.Close()
	view, err := export.View(s.Registry, c.view)
	if err != nil {
		return err
	}
	if err := export.CheckOut(c.out, c.Path, c.Dataset); err != nil {
		return err
	}
	failed := human.Failures{AllNames: c.asJSON}
	bar := human.NewProgress(env.stderr, "exporting", -1)
	counted := mountd.CountFiles(ctx, s.Tree, bar.SetTotal)
	r, err := export.Run(ctx, export.Options{
		Source: s, View: view, Out: c.out, Force: c.force, Workers: c.Workers, Failed: failed.Add, Done: func() { bar.Add(1) },
	})
	bar.Done()
	counted()
	failed.Tell(env.stderr, "not exported")
	survey.NoteSpared(noter(env.stderr), r.Spared)
	if r.SpecialBits > 0 {
		noter(env.stderr)("the set-user-ID, set-group-ID and sticky bits of %s in %s are not exported", human.Plural(int(r.SpecialBits), "file or directory", "files and directories"), c.Path)
	}
	const goesOn = "what was written is whole, and the same command goes on from there"
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted after %s; %s", human.Plural(r.Files+r.Skipped, "file", "files"), goesOn)
	case export.IsFull(err):
		return exit.Errorf(exit.System, "%s cannot be written to: %w; %s", c.out, err, goesOn)
	case err != nil:
		return fmt.Errorf("exporting to %s: %w", c.out, err)
	case c.asJSON:
		err = human.PrintJSON(env.stdout, struct {
			*export.Report
			Failures []*human.Failure `json:"failures"`
		}{&r, failed.List})
		if err != nil {
			return err
		}
	default:
		fmt.Fprintf(env.stdout, "exported %s, skipped %s that were there\n", human.Plural(r.Files, "file", "files"), human.Count(r.Skipped))
		fmt.Fprintf(env.stdout, "%s written in %s\n", human.Size(r.Bytes), time.Since(started).Round(100*time.Millisecond))
	}
	if r.Files+r.Skipped+r.Failed == 0 {
		noter(env.stderr)("%s", survey.NoPictures(mountd.Listing{}, c.Path))
	}
	if r.Failed > 0 {
		return exit.Errorf(exit.System, "%s not exported; the same command tries again, and skips the others", human.Plural(r.Failed, "file was", "files were"))
	}
	return nil
}

func convertCommand(env *environ) *cli.Command {
	var view string
	var force bool
	var limits transcode.Limits
	var how l3Config
	role := "auto"
	return &cli.Command{
		Name: "convert", ArgsUsage: "[--view VIEW] IN OUT", Category: everyday, Usage: "apply a view to one file, without a mount",
		Description: "Writes the file that a mount would show, byte for byte. IN and OUT may be - for standard input and output. OUT may be a directory. Without --view, the extension of OUT chooses the format.",
		UsageText: `pipefs convert --view scan3 in.jpg coarse.jpg
pipefs convert --view resize256-bmp in.jpg /tmp/      # makes /tmp/in.bmp
pipefs convert in.png out.l3
cat in.jpg | pipefs convert --view npy - - >out.npy`,
		Flags: slices.Concat([]cli.Flag{
			opt("view", "VIEW", "what OUT's extension says", intoString(&view), "apply these steps, joined by hyphens (see pipefs views --steps)"),
			opt("role", "auto|image|mask", "auto, by the file's mode", intoChoice(&role, "auto", "image", "mask"), "treat the file as a picture or as a mask"),
			&cli.BoolFlag{Name: "force", Destination: &force, Usage: "write OUT even if its extension does not match the result"},
		}, l3Flags(&how, "dense", "fast", "v1"), limitFlags(&limits)),
		Action: takes(2, 2, func(ctx context.Context, args []string) error {
			r := codecs.New(limits, codecs.Options{L3: how.Options})
			if view == "" {
				if view = export.ViewOf(r, args[1]); view == "" {
					return exit.Errorf(exit.Usage, "convert needs a view where the extension of OUT does not say what to make: --view resize256-bmp (pipefs views --steps lists the steps)")
				}
			}
			c := export.Conversion{View: view, Role: roleOf(role), In: args[0], Out: args[1], Force: force, L3: how.given(), Stdin: env.stdin, Stdout: env.stdout, Stderr: env.stderr}
			return c.Run(ctx, r)
		}),
	}
}

func roleOf(s string) transcode.Role {
	return map[string]transcode.Role{"image": transcode.Image, "mask": transcode.Mask}[s]
}
