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

// limitFlags are the options of every command that opens samples: what a
// hostile file may cost. Error messages name them.
func limitFlags(l *transcode.Limits) []cli.Flag {
	return hide(true,
		opt("max-file", "SIZE", "1GiB", intoSize(&l.MaxFile, 1), "show longer files unchanged; a sample is read into memory as a whole"),
		opt("max-pixels", "N", fmt.Sprint(transcode.DefaultMaxPixels), intoInt(&l.MaxPixels, 1, math.MaxInt64), "show larger pictures unchanged; decoding takes about six bytes per pixel"),
		opt("max-scans", "N", fmt.Sprint(jpeg.DefaultMaxScans), intoInt(&l.MaxScans, 1, math.MaxInt32), "refuse a JPEG with more scans; each takes as long as a whole picture"),
		opt("max-segments", "N", fmt.Sprint(jpeg.DefaultMaxSegments), intoInt(&l.MaxSegments, 1, math.MaxInt32), "refuse a JPEG with more marker segments besides scans"),
	)
}

// roleFlags say what samples are.
func roleFlags(roles *transcode.Roles) []cli.Flag {
	return []cli.Flag{
		opt("images", "GLOB", "", intoList(&roles.Images), "treat matching samples as pictures, even if they look like masks (repeatable)"),
		opt("masks", "GLOB", "", intoList(&roles.Masks), "treat matching samples as masks: '**/labels/*.png' or '*_mask.png' (repeatable)"),
	}
}

// pairFlag says which masks follow which pictures.
func pairFlag(roles *transcode.Roles) cli.Flag {
	return opt("pair", "PICTURES=MASKS", "", func(s string) error {
		pair, err := transcode.ParsePair(s)
		roles.Pairs = append(roles.Pairs, pair)
		return err
	}, "let masks follow what is drawn for their pictures: 'images/**.jpg=masks/**.png' (repeatable)")
}

// l3Config is how L3 files are to be written.
type l3Config struct {
	l3.Options
	mode string
}

// given reports whether anything was said about it.
func (c *l3Config) given() bool { return c.mode != "" }

// l3Flags are the options of commands that write L3 files.
func l3Flags(c *l3Config, modes ...string) []cli.Flag {
	return []cli.Flag{
		opt("l3-mode", strings.Join(modes, "|"), modes[0], func(s string) error {
			if err := intoChoice(&c.mode, modes...)(s); err != nil {
				return err
			}
			var err error
			c.Mode, err = l3.ParseMode(s)
			return err
		}, "write L3 files that are small (dense), decode faster (fast), or that other programs read (v1)"),
	}
}

// classesFlag takes a list of classes, see source.Classes.
func classesFlag(list *string) cli.Flag {
	return opt("classes", "FILE", "", place(intoString(list)), "make class directories from a list: CSV of NAME,CLASS, or lines NAME CLASS")
}
