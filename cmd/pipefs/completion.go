package main

import (
	"context"
	"embed"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
)

//go:embed completion
var completionScripts embed.FS

func completionCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "completion", ArgsUsage: "bash|zsh|fish", Category: administration,
		Usage:       "print the completion script of a shell",
		Description: "Packages install the scripts. To install one yourself, put it into ~/.local/share/bash-completion/completions/pipefs, as _pipefs into a directory of zsh's $fpath, or into ~/.config/fish/completions/pipefs.fish.",
		UsageText: `# for this shell only
source <(pipefs completion bash)
# for fish, permanently
pipefs completion fish > ~/.config/fish/completions/pipefs.fish`,
		Action: takes(1, 1, func(_ context.Context, args []string) error {
			script, err := completionScripts.ReadFile("completion/" + args[0])
			if err != nil {
				return exit.Errorf(exit.Usage, "unknown shell %q; expected bash, zsh or fish", args[0])
			}
			_, err = env.stdout.Write(script)
			return err
		}),
	}
}
