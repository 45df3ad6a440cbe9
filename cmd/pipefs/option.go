package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// option is one setting of a command. One definition gives the long flag, its -o
// twin where the command has -o, and its line in the help.
type option struct {
	name  string // of the long flag, without hyphens
	short string // a letter, or empty
	arg   string // stands for the value in the help; empty for a switch
	help  string
	def   string // the default, as the help shows it
	// flagOnly: without a twin in -o.
	flagOnly bool
	// path: the value is one, and is made absolute before it is set.
	path bool
	set  func(value string) error
	// given holds the values that were set, paths made absolute.
	given []string
}

// value adapts an option to package flag.
type value struct{ o *option }

func (v value) Set(s string) error { return v.o.give(s) }
func (v value) String() string     { return "" }
func (v value) IsBoolFlag() bool   { return v.o != nil && v.o.arg == "" }

// give sets the option and remembers how.
func (o *option) give(s string) error {
	if o.path && s != "" {
		abs, err := filepath.Abs(s)
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

// Apply, Names, IsSet and String make an option a cli.Flag.
func (o *option) Apply(set *flag.FlagSet) error {
	for _, name := range o.Names() {
		set.Var(value{o}, name, o.help)
	}
	return nil
}

// Names are the flags, without hyphens.
func (o *option) Names() []string {
	if o.short == "" || o.short == o.name {
		return []string{o.name}
	}
	return []string{o.name, o.short}
}

// IsSet reports whether the user gave the option.
func (o *option) IsSet() bool { return len(o.given) > 0 }

// String is the option as the help shows it.
func (o *option) String() string {
	s := "    --" + o.name
	if o.short != "" {
		s = "-" + o.short + ", --" + o.name
		if o.name == o.short {
			s = "-" + o.short
		}
	}
	if o.arg != "" {
		s += " " + o.arg
	}
	return s
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

// The kinds of values an option can have.

func intoString(p *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return fmt.Errorf("an empty value")
		}
		*p = s
		return nil
	}
}

func intoList(p *[]string) func(string) error {
	return func(s string) error {
		if s == "" {
			return fmt.Errorf("an empty value")
		}
		*p = append(*p, s)
		return nil
	}
}

func intoBool(p *bool) func(string) error {
	return func(s string) error {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		*p = b
		return nil
	}
}

func intoInt[T ~int | ~int64](p *T, least, most T) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || T(n) < least || T(n) > most {
			return fmt.Errorf("%q is not a number from %d to %d", s, least, most)
		}
		*p = T(n)
		return nil
	}
}

// intoLevels takes fidelities, separated by commas.
func intoLevels(p *[]int) func(string) error {
	return func(s string) error {
		*p = []int{}
		for word := range strings.SplitSeq(s, ",") {
			k, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || k < 1 || k > maxFidelity {
				return fmt.Errorf("%q is not a fidelity from 1 to %d; write them like 1,2,5,10", word, maxFidelity)
			}
			*p = append(*p, k)
		}
		return nil
	}
}

func intoChoice(p *string, choices ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(choices, s) {
			return fmt.Errorf("%q is none of %s", s, strings.Join(choices, ", "))
		}
		*p = s
		return nil
	}
}

func intoDuration(p *time.Duration) func(string) error {
	return func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration; write 30s or 2m", s)
		}
		*p = d
		return nil
	}
}
