package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

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

// formatSize writes a number of bytes for people, in decimal units.
func formatSize(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		f /= 1000
		if f < 999.5 || unit == "PB" {
			if f < 9.995 {
				return fmt.Sprintf("%.2f %s", f, unit)
			}
			if f < 99.95 {
				return fmt.Sprintf("%.1f %s", f, unit)
			}
			return fmt.Sprintf("%.0f %s", f, unit)
		}
	}
	return ""
}

// formatCount writes a number with its thousands apart: 1,281,167.
func formatCount[T ~int | ~int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural writes a count with its noun: 1 file, 2 files.
func plural[T ~int | ~int64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + many
}
