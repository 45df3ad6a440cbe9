package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/exit"
)

// Options that fstab, mount(8) and systemd use and that ask nothing of pipefs, or
// what it does anyway: its mounts are always ro, nodev and nosuid.
var standardOptions = []string{
	"ro", "nodev", "dev", "nosuid", "suid", "exec", "sync", "async", "dirsync",
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

// setTwins sets options from the value of -o.
func setTwins(options []*option, list string) error {
	for _, entry := range splitOptions(list) {
		if err := setTwin(options, entry); err != nil {
			return err
		}
	}
	return nil
}

func setTwin(options []*option, entry string) error {
	key, val, hasValue := strings.Cut(entry, "=")
	switch {
	case entry == "", slices.Contains(standardOptions, entry),
		strings.HasPrefix(entry, "x-"), strings.HasPrefix(entry, "X-"),
		key == "comment", key == "user" && hasValue, key == "subtype" && val == "pipefs":
		return nil
	case entry == "rw":
		return exit.Errorf(exit.Usage, "option rw: pipefs never writes to a dataset, mount with ro (in /etc/fstab write ro where no other option says it)")
	case entry == "remount":
		return exit.Errorf(exit.Usage, "option remount: a pipefs mount cannot be changed, unmount and mount again (fidelity alone moves while it is mounted: pipefs fidelity MNT K)")
	}
	// allow_other is the spelling of fuse, cache_bytes of those who are used to it
	name := strings.ReplaceAll(key, "_", "-")
	for _, o := range options {
		if o.name != name || o.flagOnly {
			continue
		}
		switch {
		case !hasValue && o.arg == "":
			val = "true"
		case !hasValue:
			return exit.Errorf(exit.Usage, "option %s needs a value: -o %s=%s", key, key, o.arg)
		}
		if err := o.Set(val); err != nil {
			return exit.With(exit.Usage, fmt.Errorf("option %s: %w", key, err))
		}
		return nil
	}
	twins := slices.DeleteFunc(slices.Clone(options), func(o *option) bool { return o.flagOnly })
	return exit.Errorf(exit.Usage, "unknown option %q in -o%s (pipefs mount --%s lists those that there are)",
		key, meantOption(twins, name, ""), helpAll)
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
