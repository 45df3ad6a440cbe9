package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
)

// Options that fstab, mount(8) and systemd use and that ask nothing of pipefs, or
// what it does anyway: its mounts are always ro, nodev, nosuid and noexec.
var standardOptions = []string{
	"ro", "nodev", "dev", "nosuid", "suid", "noexec", "exec", "sync", "async", "dirsync",
	"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime",
	"lazytime", "nolazytime", "iversion", "noiversion", "mand", "nomand", "silent", "loud",
	"user", "nouser", "users", "owner", "noowner", "group", "nogroup", "auto", "noauto", "defaults",
	"_netdev", "nofail", "default_permissions",
}

// splitOptions splits the value of -o at its commas. A comma in a value is written
// with a backslash in front, as libfuse has it.
func splitOptions(s string) []string {
	var out []string
	var word strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == ',' || s[i+1] == '\\'):
			i++
			word.WriteByte(s[i])
		case s[i] == ',':
			out = append(out, word.String())
			word.Reset()
		default:
			word.WriteByte(s[i])
		}
	}
	return append(out, word.String())
}

// flagOnly are the flags of mount that -o does not take.
var flagOnly = map[string]bool{"o": true, "foreground": true, "dry-run": true, "shared": true, "holder": true, "takeover": true, "help": true}

// expandOptions writes the values of -o as flags, in front of the others: a flag wins over -o.
func expandOptions(flags []cli.Flag, args []string) (expanded []string, err error) {
	front, back := permute(flags, args)
	var others []string
	for i := 0; i < len(front); i++ {
		switch a := front[i]; {
		case a == "-o" && i+1 < len(front), a == "--o" && i+1 < len(front):
			i++
			if expanded, err = expandList(flags, expanded, front[i]); err != nil {
				return nil, err
			}
		default:
			others = append(others, a)
		}
	}
	return slices.Concat(expanded, others, back), nil
}

func expandList(flags []cli.Flag, expanded []string, list string) ([]string, error) {
	for _, entry := range splitOptions(list) {
		flag, err := expandEntry(flags, entry)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		if flag != "" {
			expanded = append(expanded, flag)
		}
	}
	return expanded, nil
}

// expandEntry writes an entry of -o as a flag; "" is an entry that asks nothing of pipefs.
func expandEntry(flags []cli.Flag, entry string) (string, error) {
	key, val, hasValue := strings.Cut(entry, "=")
	switch {
	case entry == "", slices.Contains(standardOptions, entry),
		strings.HasPrefix(entry, "x-"), strings.HasPrefix(entry, "X-"),
		key == "comment", key == "user" && hasValue, key == "subtype" && val == "pipefs":
		return "", nil
	case entry == "rw":
		return "", errors.New("option rw: pipefs never writes to a dataset, mount with ro (in /etc/fstab write ro where no other option says it)")
	case entry == "remount":
		return "", errors.New("option remount: a pipefs mount cannot be changed, unmount and mount again (fidelity alone moves while it is mounted: pipefs fidelity MNT K)")
	}
	// allow_other is the spelling of fuse, cache_bytes of those who are used to it
	name := strings.ReplaceAll(key, "_", "-")
	f := lookup(flags, name)
	switch {
	case f == nil || flagOnly[name]:
		return "", fmt.Errorf("unknown option %q in -o%s (pipefs mount --help lists the options)", key, question(strings.TrimLeft(cli.SuggestFlag(flags, name, true), "-")))
	case takesValue(f) && !hasValue:
		return "", fmt.Errorf("option %s needs a value: -o %s=…", key, key)
	case hasValue:
		return "--" + name + "=" + val, nil
	}
	return "--" + name, nil
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
