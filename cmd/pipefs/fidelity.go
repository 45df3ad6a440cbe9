package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
)

func fidelityCommand(env *environ) *command {
	return &command{
		name: "fidelity", args: "MNT [K]", min: 1, max: 2,
		brief: "tell or move the fidelity of MNT/current",
		about: "MNT/current is a link to one of MNT/scan1 … MNT/scan10. Moving it changes what is opened through it from then on; files that are open, and paths that name a view, stay what they are.",
		examples: []example{
			{"pipefs fidelity ~/m", "print the view that ~/m/current points to, such as scan10"},
			{"pipefs fidelity ~/m 5", "go on with five scans of each image while a training runs"},
		},
		words: []string{"view", "fidelity"},
		run: func(ctx context.Context, args []string) error {
			request := control.Request{Op: control.OpFidelity}
			if len(args) == 2 {
				k, err := strconv.Atoi(args[1])
				if err != nil || k < 1 || k > maxFidelity {
					return exit.Errorf(exit.Usage, "fidelity %q is not a number from 1 to %d", args[1], maxFidelity)
				}
				request.Scans = k
			}
			reply, err := ask(ctx, args[0], request)
			if err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, reply.Current)
			return nil
		},
	}
}
