package main

import (
	"strings"

	"github.com/pipefs/pipefs/transcode/l3"
)

// l3Config is how L3 files are to be written.
type l3Config struct {
	l3.Options
	mode string
}

// given reports whether anything was said about it.
func (c *l3Config) given() bool { return c.mode != "" || c.Patch != 0 }

// l3Options are the options of commands that write L3 files.
func l3Options(c *l3Config, modes ...string) []*option {
	return []*option{
		{name: "l3-mode", arg: strings.Join(modes, "|"), def: modes[0], set: func(s string) error {
			if err := intoChoice(&c.mode, modes...)(s); err != nil {
				return err
			}
			var err error
			c.Mode, err = l3.ParseMode(s)
			return err
		}, help: "how L3 files are written: dense is small, fast decodes about one and a half times as fast, and v1 is for other programs that read the published format"},
		{name: "patch", arg: "N", def: "256, or 64 for v1", set: intoInt(&c.Patch, 1, l3.MaxPatch),
			help: "sides of the patches of L3 files, which can be decoded one by one"},
	}
}
