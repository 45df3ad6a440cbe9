package page

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/views"
)

// plots are the figures that there is something to be seen in.
func plots(r *views.Report) []*figure {
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
	figures := []*figure{rates(rows, names)}
	figures = append(figures, storage(rows)...)
	figures = append(figures, fidelity(rows)...)
	if r.Compute != "" {
		figures = append(figures, stalls(rows, names)...)
	}
	return append(figures, cpu(rows, names)...)
}

func rates(rows []*views.Row, names []string) *figure {
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

// kinds of points, told apart by colour and shape.
var kinds = []string{"same pixels", "other pixels", "control"}

func kindOf(row *views.Row) int {
	switch {
	case row.Control:
		return 2
	case row.Same:
		return 0
	}
	return 1
}

// byKind makes points of rows, a series a kind that there is.
func byKind(rows []*views.Row, x func(*views.Row) float64) []series {
	all := make([]series, len(kinds))
	for i := range all {
		all[i].name = kinds[i]
	}
	for _, row := range rows {
		s := &all[kindOf(row)]
		rate := row.Rate()
		s.x, s.y = append(s.x, x(row)), append(s.y, rate.Median)
		s.low, s.high = append(s.low, rate.Low), append(s.high, rate.High)
		s.labels = append(s.labels, row.View)
	}
	return slices.DeleteFunc(all, func(s series) bool { return len(s.x) == 0 })
}

// storage is throughput against bytes: what is kept, and what is read.
func storage(rows []*views.Row) []*figure {
	var figures []*figure
	for _, f := range []struct {
		title, label, caption string
		of                    func(*views.Row) int64
	}{
		{"Throughput and storage", "a sample, kept on disk beside the source", "What a view is worth, and what it takes: fast and small is up and to the left.", func(r *views.Row) int64 { return r.StoredBytes }},
		{"Throughput and bytes read", "a sample, read in an epoch from the disk", "Where the disk is the bottleneck, rates fall as bytes grow.", func(r *views.Row) int64 { return r.DiskBytes }},
	} {
		unit, factor := unitOf(float64(f.of(slices.MaxFunc(rows, func(a, b *views.Row) int { return cmp.Compare(f.of(a), f.of(b)) }))))
		if len(rows) < 2 || unit == "B" && !slices.ContainsFunc(rows, func(r *views.Row) bool { return f.of(r) > 0 }) {
			continue
		}
		figure := pointFigure(f.title, unit+" "+f.label, "samples/s, lasting", false, byKind(rows, func(r *views.Row) float64 { return float64(f.of(r)) / factor })...)
		figure.Caption = f.caption
		figures = append(figures, figure)
	}
	return figures
}

var scans = regexp.MustCompile(`^scan([0-9]+)$`)

// fidelity is what scans cost and what they show.
func fidelity(rows []*views.Row) []*figure {
	type scan struct {
		*views.Row
		number int
	}
	var all []scan
	largest := 0.0
	for _, row := range rows {
		if m := scans.FindStringSubmatch(row.View); m != nil && row.FileBytes > 0 {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				all, largest = append(all, scan{row, n}), max(largest, float64(row.FileBytes))
			}
		}
	}
	if len(all) < 2 {
		return nil
	}
	slices.SortFunc(all, func(a, b scan) int { return cmp.Compare(a.number, b.number) })
	unit, factor := unitOf(largest)
	likeness, rate := series{name: "MS-SSIM"}, series{name: "rate"}
	for _, s := range all {
		x := float64(s.FileBytes) / factor
		ssim := s.MSSSIM
		if s.Same {
			ssim = 1
		}
		if ssim > 0 {
			likeness.x, likeness.y, likeness.labels = append(likeness.x, x), append(likeness.y, ssim), append(likeness.labels, s.View)
		}
		t := s.Rate()
		rate.x, rate.y, rate.labels = append(rate.x, x), append(rate.y, t.Median), append(rate.labels, s.View)
		rate.low, rate.high = append(rate.low, t.Low), append(rate.high, t.High)
	}
	var figures []*figure
	if len(likeness.x) > 1 {
		f := pointFigure("Fidelity: bytes and likeness", unit+" a file", "MS-SSIM, 1 is the same picture", true, likeness)
		f.Caption = "How much of the picture the first scans show. From 0.95 on the PCR paper takes a scan for safe to train on."
		figures = append(figures, f)
	}
	f := pointFigure("Fidelity: bytes and rate", unit+" a file", "samples/s, lasting", true, rate)
	f.Caption = "What fewer scans are worth to this loader."
	return append(figures, f)
}

// stalls are how an epoch from the disk divides, by DS-Analyzer.
func stalls(rows []*views.Row, names []string) []*figure {
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
	return []*figure{f}
}

func cpu(rows []*views.Row, names []string) []*figure {
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
	return []*figure{f}
}
