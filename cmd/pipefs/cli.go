package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/remote"
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

// option is one setting of a command. One definition gives the long flag, its twin in -o
// where the command has -o, its line in the help, and what a daemon is started with. It is
// a pflag.Value.
type option struct {
	name  string // of the long flag, without hyphens
	short string // a letter, or empty
	arg   string // stands for the value in the help; empty for a switch
	help  string
	def   string // the default, as the help shows it
	// flagOnly: without a twin in -o.
	flagOnly bool
	// path: the value is one, and is made absolute before it is set. With url it may be a URL
	// as well, which stays as it is.
	path, url bool
	// rare: left to --help-all, because most users never need it.
	rare bool
	set  func(value string) error
	// given holds the values that were set, paths made absolute.
	given []string
}

// Set sets the option and remembers how.
func (o *option) Set(s string) error {
	if o.path && s != "" {
		if remote.Is(s) && !o.url {
			return errNoURL
		}
		abs, err := remote.Place(s)
		if err != nil {
			return err
		}
		s = abs
	}
	if err := o.set(s); err != nil {
		return err
	}
	o.given = append(o.given, s)
	return nil
}

func (o *option) String() string { return o.def }

// Type implements pflag.Value.
func (o *option) Type() string { return o.arg }

func (o *option) isSet() bool { return len(o.given) > 0 }

func lookup(options []*option, name string) *option {
	for _, o := range options {
		if o.name == name {
			return o
		}
	}
	return nil
}

// again renders the options that were given as arguments of another process.
func again(options []*option) []string {
	var args []string
	for _, o := range options {
		for _, v := range o.given {
			args = append(args, "--"+o.name+"="+v)
		}
	}
	return args
}

// dispatch runs a command line.
func dispatch(ctx context.Context, env *environ, args []string) error {
	commands := commandsOf(env)
	program, args := args[0], args[1:]
	mount := find(commands, "mount")
	switch {
	case strings.HasPrefix(filepath.Base(program), "mount."):
		// mount(8) runs the program as mount.fuse.pipefs if it has that name in /sbin
		return mount.execute(ctx, env, asOwner(helper(args)))
	case len(args) == 0:
		return errNoCommand
	}
	switch args[0] {
	case completionWord:
		return printCompletions(env, args[1:])
	case "-v", "--version":
		args[0] = "version"
	case "-h", "--help", "help":
		if len(args) == 1 {
			fmt.Fprint(env.stdout, appHelp(commands))
			return nil
		}
		if find(commands, args[1]) == nil {
			return unknownCommand(commands, args[1])
		}
		args = []string{args[1], "--help"}
	}
	if c := find(commands, args[0]); c != nil {
		return c.execute(ctx, env, args[1:])
	}
	// the bare form, `pipefs DATASET MNT -o …`
	unknown := func(word string) error { return unknownCommand(commands, word) }
	isPath := func(arg string) bool { return strings.Contains(arg, "/") || exists(arg) }
	if !strings.HasPrefix(args[0], "-") && !isPath(args[0]) {
		return unknown(args[0])
	}
	positional, err := mount.parse(args)
	switch {
	case err == nil && len(positional) == 0:
		return errNoCommand
	case err == nil && len(positional) == 1 && isPath(positional[0]):
		return exit.Errorf(exit.Usage, "to mount %s, say where: pipefs mount %[1]s MNT", positional[0])
	case err == nil && (len(positional) != 2 || !isPath(positional[0])):
		return unknown(positional[0])
	}
	return find(commandsOf(env), "mount").execute(ctx, env, asOwner(args))
}

var errNoCommand = exit.Errorf(exit.Usage, "no command given; pipefs mount DATASET MNT mounts, pipefs --help lists all commands")

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// execute runs the command, or prints its help.
func (c *command) execute(ctx context.Context, env *environ, args []string) error {
	positional, err := c.parse(args)
	switch n := len(positional); {
	case errors.Is(err, errHelpAll), errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(env.stdout, commandHelp(c, errors.Is(err, errHelpAll)))
		return nil
	case err != nil:
		return err
	case n < c.min || n > c.max:
		return exit.Errorf(exit.Usage, "%s takes %s, not %d: %s\n(pipefs %s --help shows examples)",
			c.name, arity(c), n, strings.TrimSpace("pipefs "+c.name+" "+c.args), c.name)
	}
	return c.run(ctx, positional)
}

// parse sets the options, which may stand anywhere before --, and returns the arguments.
func (c *command) parse(args []string) ([]string, error) {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.Usage = func() {}
	for _, o := range c.options {
		if f := flags.VarPF(o, o.name, o.short, o.help); o.arg == "" {
			f.NoOptDefVal = "true"
		}
	}
	var all bool
	flags.BoolVar(&all, helpAll, false, "")
	err := flags.Parse(args)
	if err == nil && all {
		return nil, errHelpAll
	}
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		return nil, c.unknownFlag(unknown)
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		err = fmt.Errorf("option --%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		err = exit.Errorf(exit.Usage, "%w (pipefs %s --help lists the options)", err, c.name)
	}
	return flags.Args(), err
}

// helpAll is the flag that every command has beside --help.
const helpAll = "help-all"

var errHelpAll = errors.New("all options are asked for")

func arity(c *command) string {
	switch {
	case c.min == c.max:
		return plural(c.min, "argument", "arguments")
	case c.max > 10:
		return fmt.Sprintf("at least %s", plural(c.min, "argument", "arguments"))
	}
	return fmt.Sprintf("%d or %d arguments", c.min, c.max)
}

func find(commands []*command, name string) *command {
	for _, c := range commands {
		if c.name == name {
			return c
		}
	}
	return nil
}

func names(commands []*command) []string {
	all := make([]string, len(commands))
	for i, c := range commands {
		all[i] = c.name
	}
	return all
}
