package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// none is written where there is no figure.
const none = "–"

// Number writes a number with three digits, and thousands apart.
func Number(v float64) string {
	if !finite(v) {
		return none
	}
	v = roundTo(v, 3)
	digits := 0
	if v != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(v))+1e-9)))
	}
	return thousands(strconv.FormatFloat(v, 'f', digits, 64))
}

// Bytes writes a size in decimal units.
func Bytes(n float64) string {
	if !finite(n) {
		return none
	}
	unit, f := unitOf(n)
	if unit == "B" {
		return fmt.Sprintf("%.0f B", n)
	}
	return Number(n/f) + " " + unit
}

// unitOf is the unit in which a size is written, and how many bytes that is.
func unitOf(n float64) (string, float64) {
	unit, f := "B", 1.0
	for _, u := range []string{"kB", "MB", "GB", "TB", "PB"} {
		if math.Abs(n) < 999.5*f {
			break
		}
		unit, f = u, f*1000
	}
	return unit, f
}

// Milliseconds writes a time that is given in seconds, without the unit.
func Milliseconds(s float64) string { return Number(1000 * s) }

func roundTo(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// thousands sets commas in the whole part.
func thousands(s string) string {
	whole, part, point := strings.Cut(s, ".")
	first := 0
	if strings.HasPrefix(whole, "-") {
		first = 1
	}
	for i := len(whole) - 3; i > first; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		return whole + "." + part
	}
	return whole
}

// clean makes a text of what may be a file's name: no control characters, no marks
// that turn the direction of writing, nothing that is not UTF-8.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r) && r != '\u00a0':
			return utf8.RuneError
		}
		return r
	}, s)
}
