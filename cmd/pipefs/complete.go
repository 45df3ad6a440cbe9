package main

import (
	"context"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/survey"
)

// completionFlag is the last word of a command line that a shell wants completed. The word before
// it is the one that is being typed, and may be empty.
const completionFlag = "--generate-bash-completion"

// complete prints what may stand in place of the last word of a command line. The shell adds names of files if
// there are none.
func complete(app *cli.App, words []string) {
	last := ""
	if n := len(words); n > 0 {
		words, last = words[:n-1], words[n-1]
	}
	var list []string
	if len(words) == 0 || len(words) == 1 && words[0] == "help" {
		for _, c := range app.Commands {
			list = append(list, c.Name)
		}
	} else if c := app.Command(words[0]); c != nil {
		list = candidates(c, words[1:], last)
	}
	for _, c := range list {
		if strings.HasPrefix(c, last) {
			fmt.Fprintln(app.Writer, c)
		}
	}
}

// candidates are what may stand in place of the last word of a command line.
func candidates(c *cli.Command, before []string, last string) []string {
	isFlag := strings.HasPrefix(last, "-") && !slices.Contains(before, "--")
	front := ""
	if name, value, cut := strings.Cut(last, "="); cut && isFlag {
		before, last, front = append(before, name), value, name+"="
	}
	if n := len(before); n > 0 && strings.HasPrefix(before[n-1], "-") {
		if f := lookup(c.Flags, strings.TrimLeft(before[n-1], "-")); takesValue(f) {
			return survey.Prefixed(front, valuesOf(c.Flags, f, last))
		}
	}
	if isFlag {
		list := []string{"--help"}
		for _, f := range c.Flags {
			list = append(list, dashed(f.Names()[0]))
		}
		return list
	}
	_, places := permute(c.Flags, before)
	slots := strings.Fields(optional.ReplaceAllString(c.ArgsUsage, ""))
	if len(slots) == 0 {
		return nil
	}
	place := max(0, len(places)-1) // without the --
	if place >= len(slots) && !strings.HasSuffix(c.ArgsUsage, "…]") {
		return nil
	}
	slot := slots[min(place, len(slots)-1)]
	if slot == "MNT" && place > 0 {
		return nil // where something is to be mounted
	}
	return placeholder(slot, last)
}

// optional are the marks of what may be left out in the usage of a command.
var optional = regexp.MustCompile(`[][…]`)

// valuesOf are candidates for the value of a flag. Those of -o are other flags.
func valuesOf(flags []cli.Flag, f cli.Flag, last string) []string {
	v := f.(*cli.GenericFlag).Value.(*value)
	front := ""
	if i := strings.LastIndexByte(last, ','); i >= 0 && strings.Contains(v.arg, ",") {
		front, last = last[:i+1], last[i+1:]
	}
	if f.Names()[0] != "o" {
		words := v.arg
		return survey.Prefixed(front, placeholder(strings.TrimSuffix(words[strings.IndexByte(words, '=')+1:], ",…"), last))
	}
	if name, value, cut := strings.Cut(last, "="); cut {
		if f := lookup(flags, strings.ReplaceAll(name, "_", "-")); takesValue(f) {
			return survey.Prefixed(front+name+"=", valuesOf(flags, f, value))
		}
		return nil
	}
	list := []string{"ro", "_netdev"}
	for _, f := range flags {
		switch name := f.Names()[0]; {
		case flagOnly[name]:
		case takesValue(f):
			list = append(list, name+"=")
		default:
			list = append(list, name)
		}
	}
	return survey.Prefixed(front, list)
}

// placeholder gives candidates for a word of a usage line: words in lower case are meant as they
// are, MNT is a mount, VIEW a view, and anything else a file, which the shell completes.
func placeholder(arg, last string) []string {
	var list []string
	for word := range strings.FieldsFuncSeq(arg, func(r rune) bool { return r == '|' || r == ',' }) {
		switch {
		case word == "MNT":
			list = append(list, survey.MountPoints()...)
		case word == "VIEW":
			list = append(list, survey.ViewNames(last)...)
		case word == "K":
			for k := range mountd.MaxFidelity {
				list = append(list, fmt.Sprint(k+1))
			}
		case strings.ToLower(word) == word:
			list = append(list, word)
		}
	}
	return append(list, survey.ViewsInMount(last)...)
}

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
