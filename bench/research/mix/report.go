package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/bench/research/chart"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/mixer"
)

// results are all cells.
type results struct {
	Disk     string      `json:"disk"`
	Settings string      `json:"settings"`
	Cells    []cell      `json:"cells"`
	Adaptive []*adapting `json:"adaptive"`
}

func (c *cell) speed() string {
	if c.Bandwidth == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d MB/s", c.Bandwidth/1e6)
}

func (c *cell) summary() string {
	return fmt.Sprintf("%s, %s: tune chose %s with %d of 10 materialized, best was %d; %.2f of the best, %.2f of %s, %.2f of the originals",
		c.Format, c.speed(), c.View, c.Chosen, c.Best, c.ToBest.Median, c.ToSingle.Median, c.Single, c.ToOriginal.Median)
}

// markdown is the table for the documentation.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; disk slowed down by %s.\n\n", r.Settings, r.Disk)
	b.WriteString("| source | disk | originals/s | decoded by the mount/s | all materialized/s | tune chose | its rate/s | best ratio | to the best | best single | to it | to the originals |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range r.Cells {
		c := &r.Cells[i]
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %.0f | `%s` %d %% | %.0f | %d %% | %s | %s | %s | %s |\n",
			c.Format, c.speed(), views.Median(c.Original), views.Median(c.Decoded), views.Median(c.Rates[mixer.Ratios-1]),
			c.View, 10*c.Chosen, views.Median(c.Rates[c.Chosen]), 10*c.Best, interval(c.ToBest), c.Single, interval(c.ToSingle), interval(c.ToOriginal))
	}
	b.WriteByte('\n')
	for _, a := range r.Adaptive {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	return b.String()
}

func interval(i views.Interval) string {
	return fmt.Sprintf("%.2f (%.2f – %.2f)", i.Median, i.Low, i.High)
}

// draw draws Figures 3(a), 3(b) and 6 of the paper.
func (r *results) draw(dir string) error {
	var shares []float64
	for i := range mixer.Ratios {
		shares = append(shares, mixer.ShareOf(i))
	}
	byFormat := map[string][]*cell{}
	var formats []string
	for i := range r.Cells {
		c := &r.Cells[i]
		if byFormat[c.Format] == nil {
			formats = append(formats, c.Format)
		}
		byFormat[c.Format] = append(byFormat[c.Format], c)
	}
	var errs []error
	for _, format := range formats {
		cells := byFormat[format]
		var apart, together []chart.Series
		var names []string
		bars := []chart.Series{{Name: "originals"}, {Name: "decoded by the mount"}, {Name: "all materialized"}, {Name: "mix, as tune chose"}}
		for i, c := range cells {
			load, decode, rate := chart.Series{Name: "loading, " + c.speed(), X: shares}, chart.Series{Name: "decoding", X: shares[:mixer.Ratios-1]}, chart.Series{Name: c.speed(), X: shares}
			for j, share := range shares {
				l, d := c.Costs.Predict(share)
				load.Y = append(load.Y, l)
				if j < mixer.Ratios-1 {
					decode.Y = append(decode.Y, d)
				}
				rate.Y = append(rate.Y, views.Median(c.Rates[j]))
			}
			apart, together = append(apart, load), append(together, rate)
			if i == len(cells)-1 {
				apart = append(apart, decode)
			}
			names = append(names, c.speed())
			for j, v := range [][]float64{c.Original, c.Decoded, c.Rates[mixer.Ratios-1], c.Rates[c.Chosen]} {
				bars[j].Y = append(bars[j].Y, views.Median(v))
			}
		}
		file := func(name string) string { return filepath.Join(dir, fmt.Sprintf("mix-%s-%s.svg", format, name)) }
		title := strings.ToUpper(format) + " and materialized pixels"
		errs = append(errs,
			chart.Curves(title+": loading and decoding apart", "share materialized", "samples/s", apart...).Save(file("apart")),
			chart.Curves(title+": through the mount", "share materialized", "samples/s", together...).Save(file("together")),
			chart.Columns(title, "samples/s", names, bars...).Save(file("bars")))
	}
	return errors.Join(errs...)
}
