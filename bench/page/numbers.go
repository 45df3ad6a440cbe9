package page

import (
	"fmt"
	"math"

	"github.com/pipefs/pipefs/bench/chart"
	"github.com/pipefs/pipefs/bench/stats"
)

// none is written where there is no figure.
const none = "–"

// Number writes a number with three digits, and thousands apart.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	return chart.Number(v)
}

// Bytes writes a size in decimal units.
func Bytes(n float64) string {
	if math.IsNaN(n) || math.IsInf(n, 0) {
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
