package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pipefs/pipefs/bench/stats"
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

// Measured is the cell of a figure with its interval, which is left out where it was
// measured but once.
func Measured(values []float64) Cell {
	if len(values) == 0 {
		return Cell{Text: none}
	}
	return Within(stats.Bootstrap(values), len(values))
}

// Within is the cell of an interval, that of n measurements.
func Within(i stats.Interval, n int) Cell {
	c := Cell{Text: Number(i.Median)}
	if n > 1 && c.Text != none {
		c.Small = Number(i.Low) + " – " + Number(i.High)
	}
	return c
}

// Linear is about so many ticks, 1, 2 or 5 times a power of ten apart, from below the
// lowest value to above the highest.
func Linear(low, high float64, about int) []float64 {
	span := (high - low) / float64(max(1, about))
	step := math.Pow(10, math.Floor(math.Log10(span)))
	for _, m := range []float64{2, 2.5, 2} { // 2, 5, 10
		if span > step*(1+1e-9) {
			step *= m
		}
	}
	first := math.Floor(low/step + 1e-9)
	var ticks []float64
	for i := range max(2, int(math.Ceil(high/step-1e-9)-first)+1) {
		ticks = append(ticks, (first+float64(i))*step)
	}
	return ticks
}

// logarithmic is ticks from below the lowest value to above the highest: 1, 2 and 5
// times powers of ten, or only some powers where there are many.
func logarithmic(low, high float64, about int) []float64 {
	decades := math.Log10(high / low)
	mantissas, stride := []float64{1, 2, 5}, 1.0
	if 3*decades > float64(about)+1 {
		mantissas, stride = mantissas[:1], math.Ceil(decades/float64(about))
	}
	var ticks []float64
	for e := math.Floor(math.Log10(low) + 1e-9); ; e += stride {
		for _, m := range mantissas {
			v := m * math.Pow(10, e)
			if v <= low*(1+1e-9) {
				ticks = ticks[:0] // the ones before are not needed
			}
			if ticks = append(ticks, v); v >= high*(1-1e-9) && len(ticks) > 1 {
				return ticks
			}
		}
	}
}

// TickText writes a tick exactly, rounding errors apart.
func TickText(v float64) string {
	v = roundTo(v, 10)
	if abs := math.Abs(v); abs != 0 && (abs >= 1e7 || abs < 1e-5) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return thousands(strconv.FormatFloat(v, 'f', -1, 64))
}

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
