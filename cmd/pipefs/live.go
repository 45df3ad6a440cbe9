package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/live"
)

func liveCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "live", ArgsUsage: "MNT", Category: measuring, Usage: "show a mount as a web page",
		Description: "Prints the address of a page that shows, second by second, what holds readers back: where their time goes between disk, processor and training, rates, what requests wait for, views, readers, and files that cannot be made. The page is served at 127.0.0.1 until Ctrl-C. Its address contains a secret: whoever has it can read the page.\n" +
			"From another machine: ssh -L PORT:127.0.0.1:PORT HOST, and open the same address.",
		UsageText: `pipefs live ~/m`,
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			if _, err := statsOf(ctx, args[0]); err != nil {
				return err
			}
			s, err := live.Start(args[0], func(ctx context.Context, history bool) (*control.Stats, error) {
				return historyOf(ctx, args[0], history)
			})
			if err != nil {
				return exit.With(exit.System, err)
			}
			fmt.Fprintln(env.stdout, s.URL)
			<-ctx.Done()
			return s.Close()
		}),
	}
}
