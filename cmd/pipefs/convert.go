package main

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/convert"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

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
				if view = convert.ViewOf(r, args[1]); view == "" {
					return exit.Errorf(exit.Usage, "convert needs a view where the extension of OUT does not say what to make: --view resize256-bmp (pipefs views --steps lists the steps)")
				}
			}
			c := convert.Conversion{View: view, Role: roleOf(role), In: args[0], Out: args[1], Force: force, L3: how.given(), Stdin: env.stdin, Stdout: env.stdout, Stderr: env.stderr}
			return c.Run(ctx, r)
		}),
	}
}

func roleOf(s string) transcode.Role {
	return map[string]transcode.Role{"image": transcode.Image, "mask": transcode.Mask}[s]
}
