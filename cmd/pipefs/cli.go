package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/terminal"
)

// The categories of commands.
const (
	everyday       = "Everyday"
	stores         = "Stores"
	measuring      = "Measuring"
	administration = "Administration"
)

// value is the value of a flag.
type value struct {
	set      func(string) error
	arg, def string // as the help shows it, with =A|B what it may be, and its default
	given    bool
}

// Set implements cli.Generic.
func (v *value) Set(s string) error {
	v.given = true
	return v.set(s)
}

// String is the default, which the help shows.
func (v *value) String() string { return v.def }

// opt is a flag with a value.
func opt(name, arg, def string, set func(string) error, usage string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: &value{set: set, arg: arg, def: def}, Usage: usage}
}

// short gives a flag a letter.
func short(letter string, f cli.Flag) cli.Flag {
	f.(*cli.GenericFlag).Aliases = []string{letter}
	return f
}

// fromEnv lets variables of the environment, such as PIPEFS_CACHE_BYTES, set flags.
func fromEnv(flags []cli.Flag, names ...string) []cli.Flag {
	for _, name := range names {
		variable := []string{"PIPEFS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
		switch f := lookup(flags, name).(type) {
		case *cli.GenericFlag:
			f.EnvVars = variable
		case *cli.BoolFlag:
			f.EnvVars = variable
		}
	}
	return flags
}

// in puts flags into a category of the help.
func in(category string, flags ...cli.Flag) []cli.Flag {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.GenericFlag:
			f.Category = category
		case *cli.BoolFlag:
			f.Category = category
		}
	}
	return flags
}

// firstGiven is the first of some flags that was given; nil is none.
func firstGiven(flags []cli.Flag) cli.Flag {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.GenericFlag:
			if f.Value.(*value).given {
				return f
			}
		case *cli.BoolFlag:
			if *f.Destination {
				return f
			}
		}
	}
	return nil
}

// takes is the action of a command with so many arguments; most is math.MaxInt for any number.
func takes(least, most int, run func(ctx context.Context, args []string) error) cli.ActionFunc {
	return func(ctx *cli.Context) error {
		args := ctx.Args().Slice()
		if n := len(args); n >= least && n <= most {
			return run(ctx.Context, args)
		}
		want := human.Plural(least, "argument", "arguments")
		switch {
		case most == math.MaxInt:
			want = "at least " + want
		case most != least:
			want = fmt.Sprintf("%d or %d arguments", least, most)
		}
		c := ctx.Command
		return exit.Errorf(exit.Usage, "%s takes %s, not %d: %s\n(pipefs %s --help shows examples)",
			c.Name, want, len(args), strings.TrimSpace("pipefs "+c.Name+" "+c.ArgsUsage), c.Name)
	}
}

// dispatch runs a command line.
func dispatch(ctx context.Context, env *environ, args []string) error {
	app := newApp(env)
	args, err := arrange(app, args)
	if err != nil {
		return err
	}
	return app.RunContext(ctx, args)
}

// newApp is the program with all commands.
func newApp(env *environ) *cli.App {
	app := &cli.App{
		Name: "pipefs", Usage: "mount an image dataset as a directory of views", UsageText: "pipefs COMMAND [flags] [arguments]",
		Commands: commandsOf(env),
		Writer:   env.stdout, ErrWriter: env.stderr,
		HideVersion: true, HideHelpCommand: true, Suggest: true, DisableSliceFlagSeparator: true, EnableBashCompletion: true,
		CustomAppHelpTemplate: appTemplate,
		ExitErrHandler:        func(*cli.Context, error) {},
		OnUsageError:          usageError,
	}
	app.Action = func(ctx *cli.Context) error {
		if ctx.Args().Present() {
			return unknownCommand(app, ctx.Args().First())
		}
		cli.HelpPrinter(env.stdout, shortTemplate, app)
		return nil
	}
	for _, c := range app.Commands {
		c.HideHelpCommand, c.OnUsageError, c.CustomHelpTemplate = true, usageError, commandTemplate
	}
	return app
}

// arrange makes a command line what the library expects: a command, its flags, and its arguments.
func arrange(app *cli.App, args []string) ([]string, error) {
	program, words := args[0], slices.Clone(args[1:])
	byMount8 := false // or in its way, whose daemon runs as the owner of the dataset
	switch {
	case strings.HasPrefix(filepath.Base(program), "mount."):
		// mount(8) runs the program as mount.pipefs if it has that name in /sbin
		words, byMount8 = append([]string{"mount"}, helper(words)...), true
	case len(words) == 0:
		return args, nil
	case words[len(words)-1] == completionFlag:
		completions(app, words)
		return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--" }), nil // which the library takes for the end
	case words[0] == "-v", words[0] == "--version":
		words[0] = "version"
	case words[0] == "-h", words[0] == "--help", words[0] == "help":
		if len(words) == 1 {
			return []string{program, "--help"}, nil
		}
		words = []string{words[1], "--help"}
	}
	name := words[0]
	c := app.Command(name)
	if c == nil {
		// the bare form, pipefs DATASET MNT -o …
		mount, err := bare(app, words)
		if err != nil {
			return nil, err
		}
		c, words, byMount8 = mount, append([]string{"mount"}, words...), true
	}
	rest := words[1:]
	if c.Name == "mount" {
		var err error
		if rest, err = expandOptions(c.Flags, rest); err != nil {
			return nil, err
		}
		if byMount8 {
			rest = asOwner(rest)
		}
	}
	front, back := permute(c.Flags, rest)
	if slices.Contains(front, "--help") || slices.Contains(front, "-h") {
		return []string{program, c.Name, "--help"}, nil
	}
	return slices.Concat([]string{program, c.Name}, front, back), nil
}

// bare is the command mount for a command line that begins with no command, if it means that.
func bare(app *cli.App, words []string) (*cli.Command, error) {
	isPath := func(arg string) bool { return strings.Contains(arg, "/") || exists(arg) }
	mount := app.Command("mount")
	if !strings.HasPrefix(words[0], "-") && !isPath(words[0]) {
		return nil, unknownCommand(app, words[0])
	}
	_, places := permute(mount.Flags, words)
	if places == nil { // a flag lacks its value
		return mount, nil
	}
	places = places[1:] // behind the --
	switch {
	case len(places) == 0:
		return nil, exit.Errorf(exit.Usage, "no command given; pipefs mount DATASET MNT mounts, and pipefs --help lists all commands")
	case !isPath(places[0]):
		return nil, unknownCommand(app, places[0])
	case len(places) == 1:
		return nil, exit.Errorf(exit.Usage, "to mount %s, add a directory: pipefs mount %[1]s MNT", places[0])
	case len(places) > 2:
		return nil, unknownCommand(app, places[0])
	}
	return mount, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// permute puts the flags of a command line, with their values, in front of the arguments, since
// the library stops at the first argument. Behind -- are arguments only.
func permute(flags []cli.Flag, args []string) (front, back []string) {
	back = []string{"--"}
	for i := 0; i < len(args); i++ {
		a := args[i]
		name := strings.TrimLeft(a, "-")
		f := lookup(flags, name)
		switch {
		case a == "--":
			return front, append(back, args[i+1:]...)
		case a == "-" || !strings.HasPrefix(a, "-"):
			back = append(back, a)
			continue
		case f == nil && a[1] != '-' && takesValue(lookup(flags, a[1:2])):
			front = append(front, a[:2], a[2:]) // -oro
			continue
		}
		front = append(front, a)
		if takesValue(f) {
			if i++; i == len(args) {
				return front, nil // and the library says that the value is missing
			}
			front = append(front, args[i])
		}
	}
	return front, back
}

// lookup finds a flag by its name or its letter; nil is none.
func lookup(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// usageError says what is wrong with flags, in place of the library.
func usageError(ctx *cli.Context, err error, _ bool) error {
	text := err.Error()
	var word, flag string
	if n, _ := fmt.Sscanf(text, "flag provided but not defined: -%s", &flag); n == 1 {
		text = "unknown flag " + dashed(flag) + semicolon(question(cli.SuggestFlag(ctx.Command.Flags, flag, false)))
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

// question asks for a word, unless it is empty.
func question(meant string) string {
	if meant == "" {
		return ""
	}
	return "did you mean " + meant + "?"
}

// The help.

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
		cli.HelpPrinterCustom(w, template, data, map[string]any{"wrapAt": func() int { return terminal.HelpWidth }})
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
		return "  " + head + "\n" + strings.Repeat(" ", margin) + terminal.WrapAt(text, margin, terminal.HelpWidth)
	}
	return fmt.Sprintf("  %-*s%s", margin-2, head, terminal.WrapAt(text, margin, terminal.HelpWidth))
}
