package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pipefs/pipefs/bench/views"
)

// series are values of one kind. A value that is not finite is left out.
type series struct {
	name      string
	y         []float64 // one for each name
	low, high []float64 // the intervals of y, or empty
}

// interval of the i-th value; both ends are the value itself if there is none.
func (s *series) interval(i int) (low, high float64) {
	if i >= len(s.low) || i >= len(s.high) || !finite(s.low[i]) || !finite(s.high[i]) {
		return s.y[i], s.y[i]
	}
	return s.low[i], s.high[i]
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Bars is a chart in HTML and CSS. All numbers but texts are per cent of its
// width.
type Bars struct {
	Title, Caption string
	Label          string // of the axis of the bars
	Legend         []key
	Groups         []group
	Stacked        bool
}

// key is a row of the legend. Colours have numbers; page.html defines them.
type key struct {
	Color int
	Name  string
}

// group is the bars of one name.
type group struct {
	Name string
	Bars []bar
}

// bar has an interval if Span is more than 0, and ends, or ends its interval, at End.
type bar struct {
	Color                 int
	Length, Low, Span, At float64
	Text                  string
}

// percent rounds a share, so that pages are small.
func percent(v float64) float64 { return math.Round(1e4*v) / 100 }

func legend(all []series) (keys []key) {
	for i, s := range all {
		keys = append(keys, key{i % colors, s.name})
	}
	if len(keys) < 2 {
		return nil
	}
	return keys
}

// colors is how many page.html has.
const colors = 4

// barFigure is a group of bars a name, one for each series, or one that is made up of all
// series. label says what their length is.
func barFigure(title, label string, names []string, stacked bool, all ...series) *Bars {
	f := &Bars{Title: title, Label: label, Legend: legend(all), Stacked: stacked}
	longest := 0.0
	for j := range names {
		sum := 0.0
		for i := range all {
			s := &all[i]
			if j >= len(s.y) || !finite(s.y[j]) {
				continue
			}
			_, high := s.interval(j)
			sum += max(0, s.y[j])
			longest = max(longest, high)
		}
		if stacked {
			longest = max(longest, sum)
		}
	}
	longest = cmp.Or(longest, 1)
	for j, name := range names {
		g := group{Name: name}
		for i := range all {
			s := &all[i]
			if j >= len(s.y) || !finite(s.y[j]) {
				continue
			}
			b := bar{Color: i % colors, Length: percent(max(0, s.y[j]) / longest), Text: Number(s.y[j])}
			if low, high := s.interval(j); !stacked && high > max(0, low) {
				low, high = max(0, low), max(0, high)
				b.Low, b.Span = percent(low/longest), percent((high-low)/longest)
			}
			b.At = max(b.Length, b.Low+b.Span)
			if stacked && b.Length < 1.2*float64(len(b.Text))+2 {
				b.Text = "" // it would not fit
			}
			g.Bars = append(g.Bars, b)
		}
		f.Groups = append(f.Groups, g)
	}
	return f
}

// figures are the charts that there is something to be seen in.
func figures(r *views.Report) []*Bars {
	var rows []*views.Row // that have figures
	var names []string
	for i := range r.Rows {
		if row := &r.Rows[i]; len(row.Lasting()) > 0 {
			rows, names = append(rows, row), append(names, row.View)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	all := []*Bars{rates(rows, names)}
	if r.Compute != "" {
		all = append(all, stalls(rows, names)...)
	}
	return append(all, cpu(rows, names)...)
}

func rates(rows []*views.Row, names []string) *Bars {
	bars := []series{{name: views.FirstEpoch.Word}, {name: views.FromDisk.Word}, {name: views.FromMemory.Word}}
	some := make([]bool, len(bars))
	for _, row := range rows {
		for i, values := range [][]float64{row.First, row.Cold, row.Cached} {
			s := &bars[i]
			y, low, high := math.NaN(), math.NaN(), math.NaN()
			if len(values) > 0 {
				t := views.Bootstrap(values)
				y, some[i] = t.Median, true
				if len(values) > 1 {
					low, high = t.Low, t.High
				}
			}
			s.y, s.low, s.high = append(s.y, y), append(s.low, low), append(s.high, high)
		}
	}
	for i := len(bars) - 1; i >= 0; i-- {
		if !some[i] {
			bars = slices.Delete(bars, i, i+1)
		}
	}
	f := barFigure("Rates of all views", "samples/s", names, false, bars...)
	f.Caption = "The first epoch finds nothing prepared. Later ones find what the mount keeps, on its disk or in memory. Lines are intervals."
	return f
}

// stalls are how an epoch from the disk divides, by DS-Analyzer.
func stalls(rows []*views.Row, names []string) []*Bars {
	bars := []series{{name: "computing"}, {name: "prep stall"}, {name: "fetch stall"}}
	var known []string
	for j, row := range rows {
		a := row.Analysis
		if sum := a.Computing + a.PrepStall + a.FetchStall; math.IsNaN(sum) || sum <= 0 {
			continue
		}
		known = append(known, names[j])
		for i, v := range []float64{a.Computing, a.PrepStall, a.FetchStall} {
			bars[i].y = append(bars[i].y, 100*v)
		}
	}
	if len(known) == 0 {
		return nil
	}
	f := barFigure("Stalls", "% of an epoch from the disk", known, true, bars...)
	f.Caption = "What the accelerator does in an epoch from the disk: it computes, waits for preparation, or waits for the disk."
	return []*Bars{f}
}

func cpu(rows []*views.Row, names []string) []*Bars {
	bars := []series{{name: "loader"}, {name: "daemon"}}
	some := false
	for _, row := range rows {
		client, daemon := row.CPU()
		bars[0].y, bars[1].y = append(bars[0].y, 1000*client), append(bars[1].y, 1000*daemon)
		some = some || client+daemon > 0
	}
	if !some {
		return nil
	}
	f := barFigure("Processor time", "ms of CPU a sample, lasting epochs", names, true, bars...)
	f.Caption = "The daemon computes on the same cores as the loader."
	return []*Bars{f}
}

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
