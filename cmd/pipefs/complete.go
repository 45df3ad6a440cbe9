package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// candidate is a word that may stand where the user is typing. It is the whole word.
type candidate struct{ word, means string }

var (
	anyFile = candidate{word: ":files"}
	anyDir  = candidate{word: ":dirs"}
)

// completer finds candidates in the table of commands: there is no second list of what
// pipefs understands.
type completer struct {
	commands []*command
	registry *transcode.Registry
}

func newCompleter(commands []*command) *completer {
	return &completer{commands: commands, registry: codecs.Default(transcode.Limits{})}
}

// complete gives the candidates for the last of the words, which may be empty.
func (c *completer) complete(words []string) []candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	if len(before) == 0 || len(before) == 1 && before[0] == "help" {
		list := starting(last, c.names())
		if len(before) == 0 {
			list = append(list, starting(last, []candidate{{"help", "show what a command does"}, {"--help", ""}, {"--version", ""}})...)
		}
		return list
	}
	if cmd := find(c.commands, before[0]); cmd != nil {
		return c.arguments(cmd, before[1:], last)
	}
	return nil
}

func (c *completer) names() []candidate {
	var list []candidate
	for _, cmd := range c.commands {
		list = append(list, candidate{cmd.name, cmd.brief})
	}
	return list
}

// arguments gives the candidates for an argument of a command, or for an option.
func (c *completer) arguments(cmd *command, before []string, last string) []candidate {
	place, options := 0, true
	var waiting *option // for its value
	for _, word := range before {
		switch {
		case waiting != nil:
			waiting = nil
		case !options, !strings.HasPrefix(word, "-"), word == "-":
			place++
		case word == "--":
			options = false
		default:
			waiting = wants(cmd.options, word)
		}
	}
	switch name, value, cut := strings.Cut(last, "="); {
	case waiting != nil:
		return c.values(cmd.options, waiting, last)
	case !options || !strings.HasPrefix(last, "-"):
		return c.positional(cmd, place, last)
	case cut:
		if o := lookup(cmd.options, strings.TrimPrefix(name, "--")); o != nil {
			return prefixed(name+"=", c.values(cmd.options, o, value))
		}
		return nil
	}
	var list []candidate
	for _, o := range cmd.options {
		list = append(list, candidate{"--" + o.name, o.help})
	}
	return starting(last, append(list, candidate{"--help", "examples, and the options that matter"}, candidate{"--" + helpAll, "all options"}))
}

// wants is the option whose value is the next word: that of --cache, of -o, not of -oro.
func wants(options []*option, word string) *option {
	for _, o := range options {
		if o.arg != "" && (word == "--"+o.name || o.short != "" && word == "-"+o.short) {
			return o
		}
	}
	return nil
}

// values gives the candidates for the value of an option, which may be a list.
func (c *completer) values(options []*option, o *option, last string) []candidate {
	front := ""
	if i := strings.LastIndexByte(last, ','); i >= 0 && strings.Contains(o.arg, ",") {
		front, last = last[:i+1], last[i+1:]
	}
	if o.arg != "OPTION,…" {
		return prefixed(front, c.placeholder(strings.TrimSuffix(o.arg, ",…"), last))
	}
	// the twins of the options in -o
	if name, value, cut := strings.Cut(last, "="); cut {
		if twin := lookup(options, strings.ReplaceAll(name, "_", "-")); twin != nil && !twin.flagOnly {
			return prefixed(front+name+"=", c.values(options, twin, value))
		}
		return nil
	}
	list := []candidate{{"ro", "never written to, as always"}, {"_netdev", "wait for the network, in fstab"}}
	for _, o := range options {
		name := o.name
		if strings.Contains(last, "_") {
			name = strings.ReplaceAll(name, "-", "_")
		}
		switch {
		case o.flagOnly:
		case o.arg == "":
			list = append(list, candidate{name, o.help})
		default:
			list = append(list, candidate{name + "=", o.help})
		}
	}
	return prefixed(front, starting(last, list))
}

// optional is what the usage lines say of options and of what may be left out.
var optional = regexp.MustCompile(`\[--[^]]*\]|[][…]`)

// positional gives the candidates for an argument by its place in the usage line.
func (c *completer) positional(cmd *command, place int, last string) []candidate {
	slots := strings.Fields(optional.ReplaceAllString(cmd.args, ""))
	if len(slots) == 0 || place >= cmd.max {
		return nil
	}
	slot := slots[min(place, len(slots)-1)]
	list := c.placeholder(slot, last)
	if slot == "MNT" && place > 0 { // where something is to be mounted
		list = slices.DeleteFunc(list, func(c candidate) bool { return c.means == isMounted })
	}
	return list
}

const isMounted = "a mount of pipefs"

// placeholder gives the candidates for what a usage line or an option says in place of a
// value: words in lower case are meant as they are.
func (c *completer) placeholder(arg, last string) []candidate {
	var list []candidate
	files, dirs := false, false
	for word := range strings.FieldsFuncSeq(arg, func(r rune) bool { return r == '|' || r == ',' }) {
		switch word {
		case "DATASET", "STORE", "DIR":
			dirs = true
		case "MNT":
			dirs = true
			list = append(list, mountPoints()...)
		case "IN", "OUT", "FILE", "COMMAND":
			files = true
		case "VIEW":
			list = append(list, c.views(last)...)
		case "K":
			for k := range mountd.MaxFidelity {
				list = append(list, candidate{word: fmt.Sprint(k + 1)})
			}
		default:
			if strings.ToLower(word) == word {
				list = append(list, candidate{word: word})
			}
		}
	}
	list = starting(last, list)
	switch {
	case files:
		list = append(append(list, c.viewsInMount(last)...), anyFile)
	case dirs:
		list = append(append(list, c.viewsInMount(last)...), anyDir)
	}
	return list
}

// mountPoints are those of pipefs.
func mountPoints() []candidate {
	var list []candidate
	all, _ := mounts.Within("/")
	for _, m := range all {
		if m.Ours() {
			list = append(list, candidate{m.Mountpoint, isMounted})
		}
	}
	return list
}

// usualArguments are those of steps that take too many to list.
var usualArguments = map[string]int{"resize": 256, "crop": 224, "jpeg": 90}

// views gives the usual views, or, behind a hyphen, those that one more step makes.
func (c *completer) views(last string) []candidate {
	var list []candidate
	front := last[:strings.LastIndexByte(last, '-')+1]
	add := func(step, means string) {
		if _, err := c.registry.Parse(front + step); err == nil {
			list = append(list, candidate{front + step, means})
		} else if _, err := c.registry.Parse(front + step + "-npy"); err == nil { // it takes one more
			list = append(list, candidate{front + step + "-", means})
		}
	}
	if front == "" {
		add(transcode.Original, "the dataset as it is")
	}
	for _, k := range c.registry.Kinds() {
		switch n := usualArguments[k.Name]; {
		case k.Name == "decode": // implied, and never written
		case k.Max == 0:
			add(k.Name, k.Brief)
		case n != 0:
			add(fmt.Sprint(k.Name, n), k.Brief)
		default:
			for n := k.Min; n <= min(k.Max, k.Min+maxListed-1); n++ {
				add(fmt.Sprint(k.Name, n), k.Brief)
			}
		}
	}
	if front != "" {
		add("own", "the same bytes, under the files' own names")
	}
	return list
}

// maxListed bounds how many arguments of a step are listed.
const maxListed = 10

// viewsInMount gives the views of a mount where last is the mount and the begin of a view.
func (c *completer) viewsInMount(last string) []candidate {
	dir, name := filepath.Split(last)
	path := dir
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(dir, "~/") {
		path = home + dir[1:]
	}
	path, err := filepath.Abs(path)
	if err != nil || dir == "" {
		return nil
	}
	if m, err := mounts.At(path); err != nil || m == nil || !m.Ours() {
		return nil
	}
	return starting(last, prefixed(dir, c.views(name)))
}

// starting leaves out what does not begin with a word.
func starting(word string, list []candidate) []candidate {
	return slices.DeleteFunc(list, func(c candidate) bool { return !strings.HasPrefix(c.word, word) })
}

// prefixed puts text in front of each candidate that is a word.
func prefixed(front string, list []candidate) []candidate {
	for i := range list {
		if list[i] != anyFile && list[i] != anyDir {
			list[i].word = front + list[i].word
		}
	}
	return list
}
