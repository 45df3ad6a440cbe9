package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func viewsCommand(env *environ) *cli.Command {
	var all, steps, asJSON bool
	var roles transcode.Roles
	var limits transcode.Limits
	var access remote.Access
	return &cli.Command{
		Name: "views", ArgsUsage: "DATASET|STORE [VIEW…]", Category: everyday, Usage: "show what the views of a dataset contain",
		Description: "For the usual views, or for each VIEW: how many samples it changes, how many it leaves unchanged, the total size if it is known in advance, and an example path. Reads the headers of samples, and the pixels of some grey and palette images.",
		UsageText: `pipefs views ~/imagenet
pipefs views ~/scenes resize512-png --masks '**/labels/*.png'
pipefs views --steps      # the steps of which views are made`,
		Flags: slices.Concat(roleFlags(&roles), []cli.Flag{
			&cli.BoolFlag{Name: "all", Destination: &all, Usage: fmt.Sprintf("look at every sample (default: at %s of them)", human.Count(survey.MostLooked))},
			&cli.BoolFlag{Name: "steps", Destination: &steps, Usage: "list the steps of which views are made"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		}, remoteFlags(&access), limitFlags(&limits)),
		Action: takes(0, math.MaxInt, func(ctx context.Context, args []string) error {
			if steps {
				survey.PrintSteps(env.stdout, codecs.Default(limits))
				return nil
			}
			if len(args) == 0 {
				return exit.Errorf(exit.Usage, "views needs a dataset or a store: pipefs views ~/imagenet (or --steps)")
			}
			s, err := openSource(ctx, env, mountd.SourceOptions{Path: args[0], Remote: access, Roles: roles, Limits: limits})
			if err != nil {
				return err
			}
			defer s.Close()
			t, err := survey.Count(ctx, s, survey.Options{Views: args[1:], All: all, Roles: roles, Unlisted: unlisted(env), Stderr: env.stderr})
			if err != nil {
				return err
			}
			if asJSON {
				return terminal.PrintJSON(env.stdout, t)
			}
			if t.Samples == 0 {
				fmt.Fprintf(env.stderr, "pipefs: note: %s\n", survey.NoPictures(t.Listed, s.Path))
				return nil
			}
			t.Print(env.stdout)
			return nil
		}),
	}
}
