package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/doctor"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
)

func doctorCommand(env *environ) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name: "doctor", ArgsUsage: "[DATASET]", Category: administration, Usage: "check this machine and suggest fixes",
		Description: "Checks the kernel, the permission to mount, the limits of this job, the directories that pipefs writes to, the image decoders, current mounts, and DATASET if it is named. At the end it mounts two small pictures, and removes them again. Run it where the training runs: as the same user, in the same container or job.\n" +
			"The exit code is 0 if pipefs can mount here, 1 if a permission is missing, and 2 otherwise.",
		UsageText: `pipefs doctor
pipefs doctor ~/imagenet      # also check this dataset and its file system
pipefs doctor --json | jq -r '.findings[] | select(.mark != "ok").says'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON"},
		},
		Action: takes(0, 1, func(ctx context.Context, args []string) error {
			program, err := os.Executable()
			if err != nil {
				return err
			}
			dataset := ""
			if len(args) == 1 {
				if dataset, err = filepath.Abs(args[0]); err != nil {
					return err
				}
			}
			machine, err := doctor.Here(program, dataset)
			if err != nil {
				return err
			}
			found := machine.Look(ctx)
			if _, nothing := lookInto(ctx, dataset); nothing != "" {
				found = append(found, doctor.Finding{About: "dataset", Mark: doctor.Note, Says: nothing})
			}
			fatal := doctor.Fatal(found)
			if asJSON {
				err = human.PrintJSON(env.stdout, struct {
					Mounts   bool             `json:"can_mount"`
					Findings []doctor.Finding `json:"findings"`
				}{fatal == nil, found})
			} else {
				printFindings(env, found)
			}
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return exit.Errorf(exit.Interrupted, "interrupted")
			case fatal != nil:
				what := ""
				if dataset != "" {
					what = " that dataset"
				}
				return exit.Errorf(exit.Of(fatal), "pipefs cannot mount%s here; the problem above says why", what)
			}
			return nil
		}),
	}
}

func printFindings(env *environ, found []doctor.Finding) {
	const margin = 22
	for _, f := range found {
		fmt.Fprintf(env.stdout, "%-9s%-12s %s\n", f.Mark, f.About, human.Wrap(f.Says, margin))
		if f.Do != "" {
			fmt.Fprintf(env.stdout, "%s→ %s\n", strings.Repeat(" ", margin), human.Wrap(f.Do, margin+2))
		}
	}
}
