package main

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/internal/exit"
)

// completionWord is the word after pipefs with which shells ask what may stand at the end
// of a command line: pipefs __complete WORD… answers with a line for each candidate, and
// its meaning behind a tab. The line :files asks the shell for names of files, :dirs for
// those of directories.
const completionWord = "__complete"

//go:embed completion
var completionScripts embed.FS

func completionCommand(env *environ) *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", min: 1, max: 1,
		brief: "print a script by which a shell completes command lines",
		about: "Packages install it. Otherwise put it where the shell looks: for bash in ~/.local/share/bash-completion/completions/pipefs, which takes the package bash-completion, or at the end of ~/.bashrc; for zsh as the file _pipefs in a directory of $fpath; for fish in ~/.config/fish/completions/pipefs.fish.",
		examples: []example{
			{"source <(pipefs completion bash)", "for this shell alone; zsh takes the same line with its own name, after compinit"},
			{"pipefs completion fish > ~/.config/fish/completions/pipefs.fish", "for every fish that begins from now on"},
		},
		run: func(_ context.Context, args []string) error {
			script, err := completionScripts.ReadFile("completion/" + args[0])
			if err != nil {
				return exit.Errorf(exit.Usage, "%q is no shell that pipefs knows: bash, zsh or fish", args[0])
			}
			_, err = env.stdout.Write(script)
			return err
		},
	}
}

// printCompletions answers a shell.
func printCompletions(env *environ, words []string) error {
	for _, c := range newCompleter(commandsOf(env)).complete(words) {
		line := c.word
		if c.means != "" {
			// in the list that a shell shows, the first sentence has to do
			means, _, _ := strings.Cut(c.means, "; ")
			line += "\t" + means
		}
		if _, err := fmt.Fprintln(env.stdout, line); err != nil {
			return err
		}
	}
	return nil
}
