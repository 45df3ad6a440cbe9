package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Options that several commands have.

// rarely puts flags below the others.
func rarely(flags ...cli.Flag) []cli.Flag { return in("Rarely needed", flags...) }

// limitOptions are the options of every command that opens samples: what a
// hostile file may cost. Error messages name them.
func limitOptions(l *transcode.Limits) []cli.Flag {
	return rarely([]cli.Flag{
		opt("max-file", "SIZE", "1GiB", intoSize(&l.MaxFile, 1), "show longer files unchanged: a sample is read into memory as a whole"),
		opt("max-pixels", "N", fmt.Sprint(transcode.DefaultMaxPixels), intoInt(&l.MaxPixels, 1, math.MaxInt64), "show larger pictures unchanged: decoding one takes about six bytes of memory a pixel"),
		opt("max-scans", "N", fmt.Sprint(jpeg.DefaultMaxScans), intoInt(&l.MaxScans, 1, math.MaxInt32), "refuse a JPEG of more scans, each of which takes as long as a whole picture"),
		opt("max-segments", "N", fmt.Sprint(jpeg.DefaultMaxSegments), intoInt(&l.MaxSegments, 1, math.MaxInt32), "refuse a JPEG of more marker segments that are no scans"),
	}...)
}

// roleOptions say what samples are.
func roleOptions(roles *transcode.Roles) []cli.Flag {
	return []cli.Flag{
		opt("images", "GLOB", "", intoList(&roles.Images), "samples that are pictures though they look like masks: '**/depth/*.png', or '*_depth.png' in any directory. May be repeated"),
		opt("masks", "GLOB", "", intoList(&roles.Masks), "samples that are masks: in every view they get the size of their pictures, by nearest neighbour, and keep their values. May be repeated"),
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
func l3Options(c *l3Config, modes ...string) []cli.Flag {
	return []cli.Flag{
		opt("l3-mode", strings.Join(modes, "|"), modes[0], func(s string) error {
			if err := intoChoice(&c.mode, modes...)(s); err != nil {
				return err
			}
			var err error
			c.Mode, err = l3.ParseMode(s)
			return err
		}, "how L3 files are written: dense is small, fast decodes about one and a half times as fast, and v1 is for other programs that read the published format"),
		opt("patch", "N", "256, or 64 for v1", intoInt(&c.Patch, 1, l3.MaxPatch), "sides of the patches of L3 files, which can be decoded one by one"),
	}
}
