package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
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
}

// Set implements cli.Generic.
func (v *value) Set(s string) error { return v.set(s) }

// String is the default, which the help shows.
func (v *value) String() string { return v.def }

// opt is a flag with a value.
func opt(name, arg, def string, set func(string) error, usage string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: &value{set: set, arg: arg, def: def}, Usage: usage}
}

// parts are those of a flag that several flags are given at once.
func parts(f cli.Flag) (category *string, hidden *bool, variables *[]string) {
	if g, ok := f.(*cli.GenericFlag); ok {
		return &g.Category, &g.Hidden, &g.EnvVars
	}
	b := f.(*cli.BoolFlag)
	return &b.Category, &b.Hidden, &b.EnvVars
}

// in puts flags into a category of the help.
func in(category string, flags ...cli.Flag) []cli.Flag {
	for _, f := range flags {
		c, _, _ := parts(f)
		*c = category
	}
	return flags
}

// hide leaves flags to the manual page, or not.
func hide(hidden bool, flags ...cli.Flag) []cli.Flag {
	for _, f := range flags {
		_, h, _ := parts(f)
		*h = hidden
	}
	return flags
}

// fromEnv lets variables of the environment, such as PIPEFS_CACHE_BYTES, set flags.
func fromEnv(flags []cli.Flag, names ...string) []cli.Flag {
	for _, name := range names {
		_, _, v := parts(lookup(flags, name))
		*v = []string{"PIPEFS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
	}
	return flags
}

// firstGiven is the name of the first of some flags that was given; "" is none.
func firstGiven(ctx *cli.Context, flags []cli.Flag) string {
	for _, f := range flags {
		if name := f.Names()[0]; ctx.IsSet(name) {
			return name
		}
	}
	return ""
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
		help := fmt.Sprintf("(pipefs %s --help shows examples)", c.Name)
		if p := writtenOut(args); p != "" {
			help = fmt.Sprintf("(if the shell wrote out a pattern of archives, put it in quotes: pipefs %s %s …)", c.Name, shellWord(p))
		}
		return exit.Errorf(exit.Usage, "%s takes %s, not %d: %s\n%s",
			c.Name, want, len(args), strings.TrimSpace("pipefs "+c.Name+" "+c.ArgsUsage), help)
	}
}

// writtenOut is a pattern of which the first arguments may be what a shell made; empty if they are not.
func writtenOut(args []string) string {
	if len(args) < 3 {
		return ""
	}
	dir, ext := filepath.Dir(args[0]), filepath.Ext(args[0])
	if ext == "" || filepath.Dir(args[1]) != dir || filepath.Ext(args[1]) != ext {
		return ""
	}
	return filepath.Join(dir, "*"+ext)
}

// dispatch runs a command line.
func dispatch(ctx context.Context, env *environ, args []string) error {
	app := newApp(env)
	if last := len(args) - 1; args[last] == completionFlag {
		complete(app, args[1:last])
		return nil
	}
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
		HideVersion: true, HideHelpCommand: true, Suggest: true, DisableSliceFlagSeparator: true,
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
	case words[0] == "-v", words[0] == "--version":
		words[0] = "version"
	case words[0] == "-h", words[0] == "--help", words[0] == "help":
		if len(words) == 1 {
			return []string{program, "--help"}, nil
		}
		words = []string{words[1], "--help"}
	}
	c := app.Command(words[0])
	if c == nil {
		// the bare form, pipefs DATASET MNT -o …
		if _, err := os.Lstat(words[0]); err != nil && !strings.HasPrefix(words[0], "-") && !strings.Contains(words[0], "/") {
			return nil, unknownCommand(app, words[0])
		}
		c, words, byMount8 = app.Command("mount"), append([]string{"mount"}, words...), true
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
		back = nil // the library takes the first for a topic
	}
	return slices.Concat([]string{program, c.Name}, front, back), nil
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
