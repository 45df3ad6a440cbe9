package main

import (
	"fmt"
	"time"

	"github.com/pipefs/pipefs/bench/chart"
	"github.com/pipefs/pipefs/bench/page"
	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/mountd"
)

// tuningPage is the report of a tuning for the page: a curve of all ratios for each
// pair, and the views that were compared at the end.
func tuningPage(c *tuneConfig, r *tune.Report) (*views.Report, []page.Section, error) {
	machine, err := views.ThisMachine(c.store)
	if err != nil {
		return nil, nil, err
	}
	about := &views.Report{
		Version: mountd.Version(), Time: time.Now().UTC().Truncate(time.Second), Machine: machine, Source: c.store, Samples: r.Samples,
		Prepared: true, Memory: r.Memory, Assumed: r.Assumed, Advice: views.Advice{Same: -1, Lossy: -1, Base: -1, Lines: []string{tuningVerdict(r)}},
	}
	var sections []page.Section
	for i := range r.Pairs {
		sections = append(sections, ratioSection(&r.Pairs[i]))
	}
	side := page.Section{
		Title: "Side by side",
		Table: &page.Table{Head: []page.Head{{Name: "View", Words: true}, {Name: "Materialized", Words: true}, {Name: "Bytes", Unit: "all samples"}, {Name: "First epoch", Unit: "samples/s"}, {Name: "Later epochs", Unit: "samples/s"}}},
	}
	for i := range r.Views {
		row := &r.Views[i]
		mix := "–"
		if row.Encoded != "" {
			mix = fmt.Sprintf("%.0f %%, the rest from %s", 100*row.Share, named(row.Encoded))
		}
		side.Table.Rows = append(side.Table.Rows, page.Row{Strong: i == r.Winner, Cells: []page.Cell{
			{Text: row.View}, {Text: mix}, {Text: page.Bytes(float64(row.Bytes))}, page.Measured(row.Rates), page.Measured(row.Later),
		}})
	}
	return about, append(sections, side), nil
}

// ratioSection is the curve of Liquid's Figure 3 for one pair.
func ratioSection(p *tune.Pair) page.Section {
	predicted, measured := chart.Series{Name: "predicted"}, chart.Series{Name: "measured"}
	for i := range p.Rows {
		row := &p.Rows[i]
		predicted.X, predicted.Y = append(predicted.X, 100*row.Share), append(predicted.Y, row.Predicted())
		if len(row.Rates) > 0 {
			measured.X, measured.Y = append(measured.X, 100*row.Share), append(measured.Y, row.Rate())
		}
	}
	title := "Raw pixels and " + namedPair(p)
	return page.Section{
		Title:   title,
		Lead:    fmt.Sprintf("Best with %.0f %% materialized.", 100*p.Rows[p.Best].Share),
		Text:    []string{fmt.Sprintf("Loading takes %s materialized and %s encoded, decoding %s a sample.", formatMillis(p.Costs.LoadRaw), formatMillis(p.Costs.LoadEncoded), formatMillis(p.Costs.Decode))},
		Figures: []*chart.Figure{chart.Curves(title, "% materialized", "samples/s, first epoch", predicted, measured)},
	}
}
