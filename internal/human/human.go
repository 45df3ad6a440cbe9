// Package human writes numbers for people.
package human

import (
	"fmt"
	"strconv"
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
