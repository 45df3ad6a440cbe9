package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/exit"
)

// normalize turns what the user or mount(8) wrote into what the parser expects:
// the program, a command, its options, and its arguments after `--`.
func normalize(args []string, commands []*command) ([]string, error) {
	program, rest := args[0], args[1:]
	mount := find(commands, "mount")
	// mount(8) runs the program as mount.fuse.pipefs if it has that name in /sbin
	if strings.HasPrefix(filepath.Base(program), "mount.") {
		return join(program, mount, asOwner(helper(rest)))
	}
	if len(rest) == 0 {
		return args, nil
	}
	switch rest[0] {
	case "-h", "--help", "-help", "-v", "--version", "-version":
		return args, nil
	case "help":
		if len(rest) == 1 {
			return []string{program, "--help"}, nil
		}
		if c := find(commands, rest[1]); c != nil {
			return []string{program, c.name, "--help"}, nil
		}
		return nil, unknownCommand(rest[1], commands)
	}
	if c := find(commands, rest[0]); c != nil {
		return join(program, c, rest[1:])
	}
	// the bare form, `pipefs DATASET MNT -o …`
	flags, positional, err := reorder(asOwner(rest), mount.options)
	if err != nil {
		return nil, err
	}
	if len(positional) != 2 || !strings.Contains(positional[0], "/") && !exists(positional[0]) {
		word := rest[0]
		if len(positional) > 0 {
			word = positional[0]
		}
		return nil, unknownCommand(word, commands)
	}
	return line(program, mount, flags, positional), nil
}

func join(program string, c *command, args []string) ([]string, error) {
	flags, positional, err := reorder(args, c.options)
	return line(program, c, flags, positional), err
}

func line(program string, c *command, flags, positional []string) []string {
	for _, f := range flags {
		if f == "--help" || f == "-h" || f == "-help" {
			// with arguments the parser would take the first one for a topic
			return []string{program, c.name, "--help"}
		}
	}
	return slices.Concat([]string{program, c.name}, flags, []string{"--"}, positional)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// reorder puts options before arguments, since flags may stand anywhere but the
// parser stops at the first argument. What it does not know it takes for a switch:
// the parser will name it.
func reorder(args []string, options []*option) (flags, positional []string, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			positional = append(positional, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' { // - alone is the standard input
			positional = append(positional, arg)
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		o := lookup(options, name)
		// -oro,allow_other in one word, as mount tools write it
		if o == nil && strings.HasPrefix(arg, "-o") && lookup(options, "o") != nil {
			flags = append(flags, "-o="+arg[2:])
			continue
		}
		flags = append(flags, arg)
		if o != nil && o.arg != "" && !hasValue {
			if i++; i == len(args) {
				return nil, nil, exit.Errorf(exit.Usage, "option %s needs a value: %s %s", arg, arg, o.arg)
			}
			flags = append(flags, args[i])
		}
	}
	return flags, positional, nil
}

func lookup(options []*option, name string) *option {
	for _, o := range options {
		if o.name == name || o.short == name && name != "" {
			return o
		}
	}
	return nil
}

// helper drops what mount(8) adds to the command line of its helpers, see "EXTERNAL
// HELPERS" there: -s tolerates unknown options, -n does not write to mtab, -v is
// verbose, -t and -N name the type and the namespace.
func helper(args []string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-s", "-n", "-v":
		case "-t", "-N":
			i++
		case "-f": // "fake": everything but the mount itself
			kept = append(kept, "--dry-run")
		default:
			kept = append(kept, args[i])
		}
	}
	return kept
}

// asOwner has the daemon of a mount by mount(8) run as the owner of the dataset, unless
// an option that follows says otherwise.
func asOwner(args []string) []string {
	if os.Geteuid() != 0 {
		return args
	}
	return append([]string{"--setuid=" + ownerUser}, args...)
}

func unknownCommand(word string, commands []*command) error {
	if strings.HasPrefix(word, "-") {
		return errNoCommand
	}
	return exit.Errorf(exit.Usage, "unknown command %q; the commands are %s (to mount a dataset: pipefs mount DATASET MNT)", word, names(commands))
}

var errNoCommand = exit.Errorf(exit.Usage, "no command given; pipefs mount DATASET MNT mounts, pipefs --help lists all commands")
