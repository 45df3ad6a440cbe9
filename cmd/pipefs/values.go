package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/mountd"
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

// units of sizes: those of decimal prefixes, in which disks are sold and df -H
// counts, and those of binary ones. K, M, G and T alone are binary, as in most
// tools that take sizes.
var units = map[string]float64{
	"B": 1,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// errNoUnit: a number that may mean bytes as well as megabytes. Only 0 means one
// thing.
var errNoUnit = errors.New("no unit")

// parseSize reads a number of bytes: 512M, 10GiB, 50GB, 1.5T.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BbIiKkMmGgTt ")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || math.IsNaN(n) || strings.ContainsAny(digits, "eExXpP_+") {
		return 0, badSize(s)
	}
	name := strings.ToUpper(strings.TrimSpace(s[len(digits):]))
	unit, ok := units[name]
	switch {
	case name == "" && n != 0:
		return 0, fmt.Errorf("%q has %w: write %[1]sMB, %[1]sGB, or %[1]sB", digits, errNoUnit)
	case name == "":
		return 0, nil
	case !ok, n*unit >= math.MaxInt64, n != 0 && n*unit < 1:
		return 0, badSize(s)
	}
	return int64(n * unit), nil
}

func badSize(s string) error {
	return fmt.Errorf("%q is not a size; write a number and one of K, M, G, T (of 1024) or KB, MB, GB, TB (of 1000): 512M, 50GB", s)
}

// intoSize takes a size of at least so many bytes.
func intoSize(p *int64, least int64) func(string) error {
	return func(s string) error {
		n, err := parseSize(s)
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
		n, err := parseSize(strings.TrimSuffix(s, "/s"))
		switch {
		case errors.Is(err, errNoUnit):
			return fmt.Errorf("%q has %w: write %[1]sMB/s, %[1]sGB/s, or %[1]sB/s", strings.TrimSuffix(s, "/s"), errNoUnit)
		case err != nil, n < 1:
			return fmt.Errorf("%q is not a rate; write bytes a second as 50MB/s or 1.5GB/s", s)
		}
		*p = n
		return nil
	}
}

func intoShare(p *float64) func(string) error {
	return func(s string) (err error) {
		*p, err = parseShare(s)
		return err
	}
}

var errShare = errors.New("want a share from 0 to 1, such as 0.3, 30% or 3/10")

// parseShare reads 0.3, 30% or 3/10.
func parseShare(s string) (float64, error) {
	of := 1.0
	if number, ok := strings.CutSuffix(s, "%"); ok {
		s, of = number, 100
	} else if number, below, ok := strings.Cut(s, "/"); ok {
		var err error
		if of, err = strconv.ParseFloat(below, 64); err != nil || of <= 0 {
			return 0, errShare
		}
		s = number
	}
	share, err := strconv.ParseFloat(s, 64)
	if err != nil || !(share >= 0 && share <= of) {
		return 0, errShare
	}
	return share / of, nil
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
