package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
)

// command is one command of pipefs.
type command struct {
	name     string
	args     string // as the usage line shows them
	min, max int    // how many arguments it takes
	brief    string // one line
	about    string // paragraphs, one line each
	examples []example
	words    []string // those of glossary that the help explains
	options  []*option
	run      func(ctx context.Context, args []string) error
}

// example is a command line that works, and what it does.
type example struct{ line, does string }

// commandsOf lists all commands, as the help does.
func commandsOf(env *environ) []*command {
	return []*command{
		mountCommand(env), umountCommand(env), packCommand(env), checkCommand(env), materializeCommand(env), infoCommand(env), viewsCommand(env),
		tuneCommand(env), benchCommand(env), statsCommand(env), cacheCommand(env), fidelityCommand(env), convertCommand(env), exportCommand(env), versionCommand(env),
	}
}

func find(commands []*command, name string) *command {
	for _, c := range commands {
		if c.name == name {
			return c
		}
	}
	return nil
}

func names(commands []*command) string {
	all := make([]string, len(commands))
	for i, c := range commands {
		all[i] = c.name
	}
	return strings.Join(all, ", ")
}

// dispatch runs a command line.
func dispatch(ctx context.Context, env *environ, args []string) error {
	commands := commandsOf(env)
	args, err := normalize(args, commands)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return errNoCommand
	}
	app := &cli.App{
		Name: "pipefs", Writer: env.stdout, ErrWriter: env.stderr,
		Version:               "", // --version is handled below, as the command version
		HideVersion:           true,
		HideHelpCommand:       true,
		CustomAppHelpTemplate: template(appHelp(commands)),
		// execute prints errors and decides on the exit code
		ExitErrHandler: func(*cli.Context, error) {},
		Flags:          []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}}},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usage(err, "") },
		Action: func(c *cli.Context) error {
			return find(commands, "version").run(c.Context, nil)
		},
	}
	for _, c := range commands {
		app.Commands = append(app.Commands, c.cli())
	}
	return app.RunContext(ctx, args)
}

// cli is the command for the parser.
func (c *command) cli() *cli.Command {
	flags := make([]cli.Flag, len(c.options))
	for i, o := range c.options {
		flags[i] = o
	}
	return &cli.Command{
		Name: c.name, Usage: c.brief, Flags: flags,
		HideHelpCommand:    true, // `help` may be the name of a dataset
		CustomHelpTemplate: template(commandHelp(c)),
		OnUsageError:       func(_ *cli.Context, err error, _ bool) error { return usage(err, c.name) },
		Action: func(ctx *cli.Context) error {
			args := ctx.Args().Slice()
			if len(args) < c.min || len(args) > c.max {
				return exit.Errorf(exit.Usage, "%s takes %s, not %s: pipefs %s %s\n(pipefs %s --help shows examples)",
					c.name, arity(c), plural(len(args), "argument", "arguments"), c.name, c.args, c.name)
			}
			return c.run(ctx.Context, args)
		},
	}
}

func arity(c *command) string {
	switch {
	case c.min == c.max:
		return plural(c.min, "argument", "arguments")
	case c.max > 10:
		return fmt.Sprintf("at least %s", plural(c.min, "argument", "arguments"))
	}
	return fmt.Sprintf("%d or %d arguments", c.min, c.max)
}

var letter = regexp.MustCompile(`option --([a-z])($|[: ])`)

// usage is the error of a flag. Package flag's own texts begin well enough, but
// speak of flags with one hyphen.
func usage(err error, command string) error {
	if e := exit.Of(err); e != exit.System {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		text = "unknown option --" + strings.TrimLeft(name, "-")
	} else if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		text = "option --" + strings.TrimLeft(name, "-") + " needs a value"
	} else if rest, ok := strings.CutPrefix(text, "invalid value "); ok {
		// invalid value "x" for flag -cache: REASON
		if _, after, ok := strings.Cut(rest, " for flag -"); ok {
			text = "option --" + after
		}
	} else if rest, ok := strings.CutPrefix(text, "invalid boolean value "); ok {
		if _, after, ok := strings.Cut(rest, " for -"); ok {
			text = "option --" + after
		}
	}
	// package flag does not tell the two kinds apart: letters take one hyphen
	text = letter.ReplaceAllString(text, "option -$1$2")
	help := "pipefs --help"
	if command != "" {
		help = "pipefs " + command + " --help"
	}
	return exit.Errorf(exit.Usage, "%s (%s lists the options)", text, help)
}
