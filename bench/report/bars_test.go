package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// drawn is a figure as a page has it, every place within the plot.
func drawn(t *testing.T, f *Bars) string {
	t.Helper()
	var b strings.Builder
	testenv.Must(t, pages.ExecuteTemplate(&b, "figure", f))
	balanced(t, b.String())
	for _, m := range regexp.MustCompile(`(?:left|bottom|width|height):(?:calc\()?([^%;"]*)%`).FindAllStringSubmatch(b.String(), -1) {
		var v float64
		if _, err := fmt.Sscan(m[1], &v); err != nil || !(-0.01 <= v && v <= 100.01) {
			t.Errorf("a place at %q", m[0])
		}
	}
	return b.String()
}

func TestOddFigures(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	long := strings.Repeat("a very long name ", 12)
	names := []string{"first", long, "<&\"'\x00\xff\u202e"}
	for what, s := range map[string][]series{
		"nothing":    nil,
		"empty":      {{}},
		"zeros":      {{name: "a", y: []float64{0, 0}}},
		"no numbers": {{name: "a", y: []float64{1, inf, nan}, low: []float64{nan, -inf, 0}, high: []float64{1, nan, inf}}},
		"below zero": {{name: "a", y: []float64{-100, 30}, low: []float64{-110, 20}, high: []float64{-90, 40}}},
		"one":        {{name: "a", y: []float64{7}}},
		"tiny, huge": {{name: "a", y: []float64{1e-7, 1e15}}},
		"close":      {{name: "a", y: []float64{1, 2}}},
		"ragged":     {{name: "a", y: []float64{1}}, {name: "b", y: []float64{1, 2, 3, 4, 5}}},
		"long":       {{name: long, y: []float64{1, 2}}, {name: long, y: []float64{1}}},
	} {
		t.Run(what, func(t *testing.T) {
			drawn(t, barFigure("Title", "x", names, false, s...))
			drawn(t, barFigure("Title", "x", names, true, s...))
		})
	}
}

// Bars are as long as their values, the longest with its interval as long as the column.
func TestLengths(t *testing.T) {
	s := drawn(t, barFigure("", "x", []string{"a", "b"}, false, series{y: []float64{50, 80}, low: []float64{50, 70}, high: []float64{50, 100}}))
	for _, want := range []string{`style="width:50%"></i><b style="left:50%">50.0</b>`, `style="width:80%"></i><u style="left:70%;width:30%"></u><b style="left:100%">80.0</b>`} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in %s", want, s)
		}
	}
}
