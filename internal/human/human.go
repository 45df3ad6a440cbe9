// Package human writes for people: numbers, words of command lines, tables, notes, how far
// something is, and why some of many files failed.
package human

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Count writes a whole number with its thousands apart: 1,281,167.
func Count[T ~int | ~int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural writes a count with its noun: 1 file, 2 files.
func Plural[T ~int | ~int64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Size writes a number of bytes for people, in decimal units.
func Size(n int64) string {
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

// Share writes a share as people do: 30%.
func Share(share float64) string { return fmt.Sprintf("%.4g%%", 100*share) }

// Percent writes a share as whole percent: 30 %.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// units of sizes: those of decimal prefixes, in which disks are sold and df -H
// counts, and those of binary ones. K, M, G and T alone are binary, as in most
// tools that take sizes.
var units = map[string]float64{
	"B": 1,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// ErrNoUnit is that of a number that may mean bytes as well as megabytes. Only 0 means one
// thing.
var ErrNoUnit = errors.New("no unit")

// ParseSize reads a number of bytes: 512M, 10GiB, 50GB, 1.5T.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BbIiKkMmGgTt ")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || math.IsNaN(n) || strings.ContainsAny(digits, "eExXpP_+") {
		return 0, badSize(s)
	}
	name := strings.ToUpper(strings.TrimSpace(s[len(digits):]))
	unit, ok := units[name]
	switch {
	case name == "" && n != 0:
		return 0, fmt.Errorf("%q has %w: write %[1]sMB, %[1]sGB, or %[1]sB", digits, ErrNoUnit)
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

var errShare = errors.New("want a share from 0 to 1, such as 0.3, 30% or 3/10")

// ParseShare reads 0.3, 30% or 3/10.
func ParseShare(s string) (float64, error) {
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

var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Line writes text so that it stays in its line, and gives a terminal no orders: quoted as in Go if it has
// characters that do not print.
func Line(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Lines is [Line] for each line of a text.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Line(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Word writes text so that a shell takes it for one word.
func Word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return Quote(text)
}

// Quote puts text between single quotes.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
