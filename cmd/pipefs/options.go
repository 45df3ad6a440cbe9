package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Options that several commands have.

// rarely leaves options to --help-all.
func rarely(options ...*option) []*option {
	for _, o := range options {
		o.rare = true
	}
	return options
}

// limitOptions are the options of every command that opens samples: what a
// hostile file may cost. Error messages name them.
func limitOptions(l *transcode.Limits) []*option {
	return rarely([]*option{
		{name: "max-file", arg: "SIZE", def: "1GiB", set: intoSize(&l.MaxFile, 1),
			help: "show longer files unchanged: a sample is read into memory as a whole"},
		{name: "max-pixels", arg: "N", def: fmt.Sprint(transcode.DefaultMaxPixels), set: intoInt(&l.MaxPixels, 1, math.MaxInt64),
			help: "show larger pictures unchanged: decoding one takes about six bytes of memory a pixel"},
		{name: "max-scans", arg: "N", def: fmt.Sprint(jpeg.DefaultMaxScans), set: intoInt(&l.MaxScans, 1, math.MaxInt32),
			help: "refuse a JPEG of more scans, each of which takes as long as a whole picture"},
		{name: "max-segments", arg: "N", def: fmt.Sprint(jpeg.DefaultMaxSegments), set: intoInt(&l.MaxSegments, 1, math.MaxInt32),
			help: "refuse a JPEG of more marker segments that are no scans"},
	}...)
}

// roleOptions say what samples are.
func roleOptions(roles *transcode.Roles) []*option {
	return []*option{
		{name: "images", arg: "GLOB", set: intoList(&roles.Images),
			help: "samples that are pictures though they look like masks: '**/depth/*.png', or '*_depth.png' in any directory. May be repeated"},
		{name: "masks", arg: "GLOB", set: intoList(&roles.Masks),
			help: "samples that are masks: in every view they get the size of their pictures, by nearest neighbour, and keep their values. May be repeated"},
	}
}

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
