package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/human"
)

// Bars is a chart in HTML and CSS. All numbers but texts are per cent of its
// width.
type Bars struct {
	Title, Caption string
	Label          string // of the axis of the bars
	Legend         []key
	Groups         []group
	Stacked        bool // the bars of a group are one
}

// key is a row of the legend. Colours have numbers; page.html defines them.
type key struct {
	Color int
	Name  string
}

// group is the bars of one row.
type group struct {
	Name string
	Bars []bar
}

// bar has an interval if Span is more than 0, and ends, or ends its interval, at End.
type bar struct {
	Color                 int
	Length, Low, Span, At float64
	Text                  string
	value                 views.Interval
}

// percent rounds a share, so that pages are small.
func percent(v float64) float64 { return math.Round(1e4*v) / 100 }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// draw makes a chart of the values of rows, of several kinds. A value that is not a number above 0 has no bar, a row
// without a bar is left out, and a chart without rows is none.
func draw(f Bars, kinds []string, rows []views.Row, value func(row *views.Row, kind int) views.Interval) []*Bars {
	longest, drawn := 0.0, make([]bool, len(kinds))
	for r := range rows {
		row := &rows[r]
		g, sum := group{Name: row.View}, 0.0
		for kind := range kinds {
			v := value(row, kind)
			if !finite(v.Median) || v.Median <= 0 {
				continue
			}
			if f.Stacked || !finite(v.Low) || !finite(v.High) || v.Low < 0 {
				v.Low, v.High = v.Median, v.Median
			}
			drawn[kind], sum, longest = true, sum+v.Median, max(longest, v.Median, v.High)
			g.Bars = append(g.Bars, bar{Color: kind, Text: Number(v.Median), value: v})
		}
		if f.Stacked {
			longest = max(longest, sum)
		}
		if g.Bars != nil {
			f.Groups = append(f.Groups, g)
		}
	}
	for _, g := range f.Groups {
		for i := range g.Bars {
			b := &g.Bars[i]
			b.Length = percent(b.value.Median / longest)
			if b.value.Low < b.value.High {
				b.Low, b.Span = percent(b.value.Low/longest), percent((b.value.High-b.value.Low)/longest)
			}
			b.At = max(b.Length, b.Low+b.Span)
			if f.Stacked && b.Length < 1.2*float64(len(b.Text))+2 {
				b.Text = "" // it would not fit
			}
		}
	}
	for kind, name := range kinds {
		if drawn[kind] {
			f.Legend = append(f.Legend, key{kind, name})
		}
	}
	if len(f.Legend) < 2 {
		f.Legend = nil
	}
	if f.Groups == nil {
		return nil
	}
	return []*Bars{&f}
}

// figures are the charts of rows that have figures.
func figures(r *views.Report, rows []views.Row) []*Bars {
	all := draw(Bars{
		Title: "Rates of all views", Label: "samples/s",
		Caption: "The first epoch finds nothing prepared. Later ones find what the mount keeps, on its disk or in memory. Lines are intervals.",
	}, []string{views.FirstEpoch.Word, views.FromDisk.Word, views.FromMemory.Word}, rows, func(row *views.Row, kind int) views.Interval {
		return views.Bootstrap([][]float64{row.First, row.Cold, row.Cached}[kind])
	})
	if r.Compute != "" { // as DS-Analyzer divides an epoch
		all = append(all, draw(Bars{
			Title: "Stalls", Label: "% of an epoch from the disk", Stacked: true,
			Caption: "What the accelerator does in an epoch from the disk: it computes, waits for preparation, or waits for the disk.",
		}, []string{"computing", "prep stall", "fetch stall"}, rows, func(row *views.Row, kind int) views.Interval {
			return views.Interval{Median: 100 * []float64{row.Analysis.Computing, row.Analysis.PrepStall, row.Analysis.FetchStall}[kind]}
		})...)
	}
	return append(all, draw(Bars{
		Title: "Processor time", Label: "ms of CPU a sample, lasting epochs", Stacked: true, Caption: "The daemon computes on the same cores as the loader.",
	}, []string{"loader", "daemon"}, rows, func(row *views.Row, kind int) views.Interval {
		client, daemon := row.CPU()
		return views.Interval{Median: 1000 * []float64{client, daemon}[kind]}
	})...)
}

// none is written where there is no figure.
const none = "–"

// Number writes a number with three digits, and thousands apart.
func Number(v float64) string {
	if !finite(v) {
		return none
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if math.Abs(v) >= 1000 {
		return human.Count(int64(v))
	}
	digits := 0
	if v != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(v))+1e-9)))
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Milliseconds writes a time that is given in seconds, without the unit.
func Milliseconds(s float64) string { return Number(1000 * s) }

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
