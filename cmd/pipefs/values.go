package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
)

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

func intoInt[T ~int | ~int64 | ~uint64](p *T, least, most T) func(string) error {
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
			if err != nil || k < 1 || k > mountd.MaxFidelity {
				return fmt.Errorf("%q is not a fidelity from 1 to %d; write them like 1,2,5,10", word, mountd.MaxFidelity)
			}
			*p = append(*p, k)
		}
		return nil
	}
}

func intoChoice(p *string, choices ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(choices, s) {
			return notOneOf(s, choices)
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

// intoAge takes a duration, which may be 0.
func intoAge(p *time.Duration) func(string) error {
	return func(s string) error {
		d, err := time.ParseDuration(s)
		if days, is := strings.CutSuffix(s, "d"); is {
			var n float64
			n, err = strconv.ParseFloat(days, 64)
			if d = time.Duration(n * float64(24*time.Hour)); !(n >= 0 && n < 1e5) {
				d = -1
			}
		}
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not an age; write 30m, 12h, 7d or 0", s)
		}
		*p = d
		return nil
	}
}

// intoSize takes a size of at least so many bytes.
func intoSize(p *int64, least int64) func(string) error {
	return func(s string) error {
		n, err := human.ParseSize(s)
		if err == nil && n < least {
			err = fmt.Errorf("%q is too small: write %dB or more, or leave the option out", s, least)
		}
		if err != nil {
			return err
		}
		*p = n
		return nil
	}
}

// intoRate takes a size a second: 50MB/s, or 50MB.
func intoRate(p *int64) func(string) error {
	return func(s string) error {
		n, err := human.ParseSize(strings.TrimSuffix(s, "/s"))
		switch {
		case errors.Is(err, human.ErrNoUnit):
			return fmt.Errorf("%q has %w: write %[1]sMB/s, %[1]sGB/s, or %[1]sB/s", strings.TrimSuffix(s, "/s"), human.ErrNoUnit)
		case err != nil, n < 1:
			return fmt.Errorf("%q is not a rate; write bytes a second as 50MB/s or 1.5GB/s", s)
		}
		*p = n
		return nil
	}
}

func intoShare(p *float64) func(string) error {
	return func(s string) (err error) {
		*p, err = human.ParseShare(s)
		return err
	}
}

// intoRange takes a number, or the first and the last one of several: 7, 0..99.
func intoRange(first, last *int) func(string) error {
	return func(s string) error {
		from, to, several := strings.Cut(s, "..")
		if !several {
			to = from
		}
		a, err := strconv.ParseUint(from, 10, 31)
		b, err2 := strconv.ParseUint(to, 10, 31)
		if err != nil || err2 != nil || b < a {
			return fmt.Errorf("%q is neither the number of a shard nor a range; write 7, or 0..99", s)
		}
		*first, *last = int(a), int(b)
		return nil
	}
}

// place makes the value of a flag an absolute path, placeOrURL leaves a URL as it is.
func place(set func(string) error) func(string) error {
	return func(s string) error {
		if remote.Is(s) {
			return errNoURL
		}
		return placeOrURL(set)(s)
	}
}

func placeOrURL(set func(string) error) func(string) error {
	return func(s string) error {
		if s == "" {
			return set(s) // which says what is wrong
		}
		abs, err := remote.Place(s)
		if err != nil {
			return err
		}
		return set(abs)
	}
}

// notOneOf refuses a word that is none of some choices.
func notOneOf(word string, choices []string) error {
	return fmt.Errorf("%q is none of %s%s", word, strings.Join(choices, ", "), question(transcode.Nearest(word, choices...)))
}

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
