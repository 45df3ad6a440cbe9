package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/transcode"
)

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
