package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/views"
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
	value := func(row *views.Row, kind int) (v views.Interval) {
		if i := 3 * kind; i+2 < len(row.Cold) {
			v = views.Interval{Median: row.Cold[i], Low: row.Cold[i+1], High: row.Cold[i+2]}
		}
		return v
	}
	for _, stacked := range []bool{false, true} {
		for what, values := range map[string][]float64{
			"nothing": nil, "zeros": {0, 0, 0}, "no numbers": {nan, 1, 2, inf, 1, 2}, "no ends": {1, nan, 2, 3, 1, inf}, "below zero": {30, -10, 40, -1, -2, 0}, "tiny, huge": {1e-7, 0, 1, 1e15, 0, 0},
		} {
			name := what + strings.Repeat(" very long", 12) + "<&\"'\x00\xff\u202e"
			for _, f := range draw(Bars{Title: "Title", Label: "x", Stacked: stacked}, []string{"a", name}, []views.Row{{View: name, Cold: values}, {View: "first", Cold: []float64{5, 5, 5}}}, value) {
				drawn(t, f)
			}
		}
	}
	if f := draw(Bars{}, []string{"a"}, []views.Row{{View: "v"}}, value); f != nil {
		t.Errorf("a chart of nothing: %+v", f)
	}
}

// Bars are as long as their values, the longest with its interval as long as the column.
func TestLengths(t *testing.T) {
	s := drawn(t, draw(Bars{}, []string{"rate"}, []views.Row{{View: "a", Cold: []float64{50}}, {View: "b", Cold: []float64{80}}}, func(row *views.Row, _ int) views.Interval {
		v := row.Cold[0]
		return views.Interval{Median: v, Low: v - (v-50)/3, High: v + (v-50)*2/3}
	})[0])
	for _, want := range []string{`style="width:50%"></i><b style="left:50%">50.0</b>`, `style="width:80%"></i><u style="left:70%;width:30%"></u><b style="left:100%">80.0</b>`} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in %s", want, s)
		}
	}
}
