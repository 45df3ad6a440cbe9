package page

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// drawn is a figure as a page has it, every place within the plot.
func drawn(t *testing.T, f *figure) string {
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
		"zeros":      {{name: "a", x: []float64{0, 0}, y: []float64{0, 0}}},
		"no numbers": {{name: "a", x: []float64{nan, 1, inf}, y: []float64{1, inf, nan}, low: []float64{nan, -inf, 0}, high: []float64{1, nan, inf}}},
		"below zero": {{name: "a", x: []float64{-5, 5}, y: []float64{-100, 30}, low: []float64{-110, 20}, high: []float64{-90, 40}}},
		"one":        {{name: "a", x: []float64{7}, y: []float64{7}, labels: []string{"seven"}}},
		"tiny, huge": {{name: "a", x: []float64{1e-9, 1e12}, y: []float64{1e-7, 1e15}}},
		"close":      {{name: "a", x: []float64{1e15, 1e15 + 0.125}, y: []float64{1, 2}}},
		"ragged":     {{name: "a", x: []float64{1, 2, 3}, y: []float64{1}, labels: []string{"x"}}, {name: "b", x: []float64{1}, y: []float64{1, 2, 3, 4, 5}}},
		"long":       {{name: long, x: []float64{1, 2}, y: []float64{1, 2}, labels: []string{long, long}}, {name: long, x: []float64{1}, y: []float64{1}}},
	} {
		t.Run(what, func(t *testing.T) {
			drawn(t, barFigure("Title", "x", names, false, s...))
			drawn(t, barFigure("Title", "x", names, true, s...))
			drawn(t, pointFigure("Title", "x", "y", false, s...))
			drawn(t, pointFigure("Title", "x", "y", true, s...))
		})
	}
}

// Labels of points that lie close together are legible.
func TestLabels(t *testing.T) {
	var s series
	for i := range 8 {
		s.x, s.y = append(s.x, 100+float64(i%3)), append(s.y, 500+10*float64(i))
		s.labels = append(s.labels, fmt.Sprintf("resize%d-bmp", i))
	}
	s.x, s.y, s.labels = append(s.x, 0, 0), append(s.y, 0, 1500), append(s.labels, "origin", "corner")
	for _, p := range pointFigure("", "x", "y", false, s).Plots {
		width := map[bool]float64{false: 560, true: 340}[p.Narrow] - axisWidth
		place := func(q point) box {
			x, y := width*q.X/100+q.Right, plotHeight*q.Y/100+q.Up
			return box{x, y, x + 5.5*float64(len(q.Label)), y + 11}
		}
		for i, a := range p.Points {
			for _, b := range p.Points[:i] {
				if c := place(a).overlap(place(b)); c > 0 {
					t.Errorf("on %.0f pixels %s covers %s by %.1f", width, a.Label, b.Label, c)
				}
			}
		}
	}
}

// Bars are as long as their values, the longest with its interval as long as there is room.
func TestLengths(t *testing.T) {
	s := drawn(t, barFigure("", "x", []string{"a", "b"}, false, series{y: []float64{50, 80}, low: []float64{50, 70}, high: []float64{50, 100}}))
	for _, want := range []string{`style="width:50%"></i><b style="left:50%">50.0</b>`, `style="width:80%"></i><u style="left:70%;width:30%"></u><b style="left:100%">80.0</b>`} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in %s", want, s)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		ticks     func(low, high float64, about int) []float64
		want      string
	}{
		{0, 3120, Linear, "0 1,000 2,000 3,000 4,000"},
		{0.73, 1, Linear, "0.7 0.8 0.9 1"},
		{-100, 30, Linear, "-100 -50 0 50"},
		{6, 331, logarithmic, "5 10 20 50 100 200 500"},
		{1, 1e6, logarithmic, "1 100 10,000 1,000,000"},
		{1e15, 1e15 + 0.1, Linear, "1e+15 1e+15"},
	} {
		var got []string
		for _, v := range c.ticks(c.low, c.high, 5) {
			got = append(got, TickText(v))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%g to %g: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}
