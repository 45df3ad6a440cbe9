package report

import (
	"math"
	"slices"

	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/views"
)

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
				t := stats.Bootstrap(values)
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
