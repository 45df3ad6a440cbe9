package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
)

const appTemplate = `{{.Name}}: {{.Usage}}

usage: {{.UsageText}}
       pipefs DATASET MNT [-o option,…]     (mounts, as in /etc/fstab)
{{$c := .VisibleCategories}}{{template "commands" index $c 1}}{{template "commands" index $c 3}}{{template "commands" index $c 2}}{{template "commands" index $c 0}}
pipefs COMMAND --help shows examples and flags.
{{define "commands"}}
{{.Name}}:{{range .VisibleCommands}}
  {{.Name | printf "%-12s"}} {{.Usage}}{{end}}
{{end}}`

const shortTemplate = `{{.Name}}: {{.Usage}}

  pipefs mount ~/imagenet ~/m           # instant; nothing is converted
  python3 train.py ~/m/resize256-bmp    # instead of ~/imagenet
  pipefs umount ~/m

{{$c := .VisibleCategories}}{{with index $c 1}}{{.Name}}:{{range .VisibleCommands}}
  {{.Name | printf "%-12s"}} {{.Usage}}{{end}}{{end}}
{{template "names" index $c 3}}{{template "names" index $c 2}}{{template "names" index $c 0}}
pipefs --help describes all commands, pipefs COMMAND --help one of them.
{{define "names"}}
{{.Name}}:{{range $i, $e := .VisibleCommands}}{{if $i}},{{end}} {{$e.Name}}{{end}}{{end}}`

const commandTemplate = `pipefs {{.Name}}: {{.Usage}}

usage: pipefs {{.Name}}{{if .Flags}} [flags]{{end}} {{.ArgsUsage}}
{{if .Description}}
{{wrap .Description 0}}
{{end}}{{if .UsageText}}
examples:
  {{wrap .UsageText 2}}
{{end}}{{range .VisibleFlagCategories}}
{{if .Name}}{{.Name}}{{else}}flags{{end}}:{{range .Flags}}
{{.}}{{end}}
{{else}}
flags:{{range .VisibleFlags}}
{{.}}{{end}}
{{end}}`

func init() {
	cli.FlagStringer = flagLine
	cli.HelpFlag = &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help"}
	cli.HelpPrinter = func(w io.Writer, template string, data any) {
		cli.HelpPrinterCustom(w, template, data, map[string]any{"wrapAt": func() int { return human.HelpWidth }})
	}
}

// flagLine is a flag in the help: its name, what it does, its default and its variable.
func flagLine(f cli.Flag) string {
	d := f.(cli.DocGenerationFlag)
	names := d.Names()
	head := dashed(names[0])
	if len(names) > 1 {
		head = dashed(names[1]) + ", " + head
	}
	text := d.GetUsage()
	if g, ok := f.(*cli.GenericFlag); ok {
		v := g.Value.(*value)
		arg, _, _ := strings.Cut(v.arg, "=")
		head += " " + arg
		if v.def != "" {
			text += " (default: " + v.def + ")"
		}
	}
	if len(d.GetEnvVars()) > 0 {
		text += " [env]"
	}
	const margin = 28
	if len(head)+4 > margin {
		return "  " + head + "\n" + strings.Repeat(" ", margin) + human.WrapAt(text, margin, human.HelpWidth)
	}
	return fmt.Sprintf("  %-*s%s", margin-2, head, human.WrapAt(text, margin, human.HelpWidth))
}

// usageError says what is wrong with flags, in place of the library.
func usageError(ctx *cli.Context, err error, _ bool) error {
	text := err.Error()
	var word, flag string
	if n, _ := fmt.Sscanf(text, "flag provided but not defined: -%s", &flag); n == 1 {
		text = "unknown flag " + dashed(flag) + question(cli.SuggestFlag(ctx.Command.Flags, flag, false))
	} else if n, _ := fmt.Sscanf(text, "flag needs an argument: -%s", &flag); n == 1 {
		text = dashed(flag) + " needs a value"
	} else if n, _ := fmt.Sscanf(text, "invalid boolean value %q for -%s", &word, &flag); n == 2 {
		text = fmt.Sprintf("%s %q is neither true nor false", dashed(strings.TrimSuffix(flag, ":")), word)
	} else if n, _ := fmt.Sscanf(text, "invalid value %q for flag -%s", &word, &flag); n == 2 {
		_, why, _ := strings.Cut(text, "for flag -"+flag+" ")
		text = dashed(flag) + " " + why
	}
	return exit.With(exit.Usage, fmt.Errorf("%s (pipefs %s --help lists the flags)", text, ctx.Command.Name))
}

// dashed is a flag as it is typed.
func dashed(name string) string {
	if len(strings.TrimSuffix(name, ":")) == 1 {
		return "-" + name
	}
	return "--" + name
}

func unknownCommand(app *cli.App, word string) error {
	cli.SuggestDidYouMeanTemplate = "did you mean %s?"
	return exit.Errorf(exit.Usage, "unknown command %q; %s (pipefs --help lists all; to mount a dataset: pipefs mount DATASET MNT)", word, cli.SuggestCommand(app.Commands, word))
}

// question asks for the word that was probably meant, behind what is wrong.
func question(meant string) string {
	if meant == "" {
		return ""
	}
	return "; did you mean " + meant + "?"
}
