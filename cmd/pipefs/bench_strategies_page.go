package main

import (
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/bench/chart"
	"github.com/pipefs/pipefs/bench/page"
	"github.com/pipefs/pipefs/bench/strategy"
)

// strategySection is the strategies of a pipeline for the page: PRESTO's three
// metrics, and throughput against storage (its Figure 6).
func strategySection(r *strategy.Report) page.Section {
	s := page.Section{
		Title: "Strategies of " + strings.TrimSuffix(r.Pipeline, "-npy"),
		Lead:  strings.Join(adviseStrategy(r), " "),
		Notes: r.Notes,
		Table: &page.Table{Head: []page.Head{
			{Name: "Stored", Words: true}, {Name: "At each read", Words: true}, {Name: "Workers"}, {Name: "Offline", Unit: "s"}, {Name: "Bytes", Unit: "all samples"},
		}},
	}
	for _, cache := range strategy.Caches {
		s.Table.Head = append(s.Table.Head, page.Head{Name: capital(strings.TrimSuffix(cacheColumns[cache], "/s")), Unit: "samples/s"})
	}
	s.Table.Head = append(s.Table.Head, page.Head{Name: "Score"})
	points := map[string]*chart.Series{}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := row.Split.Name
		if row.Compression != strategy.None {
			name += ", " + row.Compression
		}
		cells := []page.Cell{{Text: name}, {Text: strings.Join(row.Split.Rest, " ")}, {Text: fmt.Sprint(row.Workers)},
			{Text: page.Number(row.Offline / float64(r.Samples) * float64(r.Dataset))}, {Text: page.Bytes(float64(r.Whole(row.Stored)))}}
		for _, cache := range strategy.Caches {
			cell := page.Cell{Text: "–"}
			if e := row.Caches[cache]; e != nil && len(e.Rates) > 0 {
				cell = page.Measured(e.Rates)
				if points[cache] == nil {
					points[cache] = &chart.Series{Name: strings.TrimSuffix(cacheColumns[cache], "/s")}
				}
				p := points[cache]
				p.X, p.Y, p.Labels = append(p.X, float64(row.Stored)/float64(r.Samples)/1e6), append(p.Y, e.Rate()), append(p.Labels, name)
			}
			cells = append(cells, cell)
		}
		s.Table.Rows = append(s.Table.Rows, page.Row{Cells: append(cells, page.Cell{Text: fmt.Sprintf("%.2f", row.Score)}), Strong: i == r.Winner})
	}
	var series []chart.Series
	for _, cache := range strategy.Caches {
		if p := points[cache]; p != nil {
			series = append(series, *p)
		}
	}
	if len(series) > 0 {
		s.Figures = append(s.Figures, chart.Scatter(s.Title+": throughput against storage", "MB stored, a sample", "samples/s", series...))
	}
	return s
}
