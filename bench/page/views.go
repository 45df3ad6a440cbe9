package page

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/bench/chart"
	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/views"
)

// advice is a line of it: what it is about, and what it says.
type advice struct{ About, Says string }

// headline takes the advice apart: "Same pixels: point your loader at …".
func headline(r *views.Report) []advice {
	var all []advice
	for _, line := range r.Advice.Lines {
		about, says, ok := strings.Cut(line, ": ")
		if !ok || len(about) > 20 || strings.ContainsAny(about, "/.,") {
			about, says = "", line
		}
		all = append(all, advice{about, capital(says)})
	}
	if len(all) > 0 {
		return all
	}
	says := "What was measured of " + r.Source
	switch {
	case r.Interrupted && !measured(r):
		says = "Interrupted before anything was measured"
	case len(r.Rows) > 0 && !measured(r):
		says = "No view could be measured"
	case len(r.Rows) > 0:
		says = "No advice follows from these figures"
	}
	return []advice{{"", says}}
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] // a byte of a longer rune stays as it is
}

// measured says whether any row has figures.
func measured(r *views.Report) bool {
	return slices.ContainsFunc(r.Rows, func(row views.Row) bool { return len(row.Lasting()) > 0 })
}

// facts say where and how it was measured.
func facts(r *views.Report) []Term {
	var all []Term
	add := func(word string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			all = append(all, Term{word, strings.Join(parts, ", ")})
		}
	}
	size := func(n int64, format string) string {
		if n <= 0 {
			return ""
		}
		return fmt.Sprintf(format, Bytes(float64(n)))
	}
	samples := ""
	if r.Samples > 0 {
		samples = plural(r.Samples, "sample", "samples")
	}
	if r.Read > 0 && r.Read != r.Samples {
		samples += ", " + Count(r.Read) + " of them read in an epoch"
	}
	add("Source", r.Source, strings.TrimPrefix(samples, ", "))
	cores := ""
	if r.Machine.Cores > 0 {
		cores = plural(r.Machine.Cores, "core", "cores")
	}
	add("Machine", r.Machine.CPU, cores, size(r.Machine.Memory, "%s of memory"), r.Machine.Kernel)
	add("Disk", r.Machine.Disk)
	add("Loader", r.Loader)
	if r.Compute != "" {
		add("Accelerator", "emulated, "+r.Compute+" (time of a batch / samples in it)")
	}
	add("Page cache", size(r.Memory, "about %s"))
	for _, limit := range r.Limits {
		add("Limit", limit)
	}
	if r.Rounds > 0 {
		add("Rounds", Count(r.Rounds)+" by all rows, in random order; figures are medians")
	}
	version := ""
	if r.Version != "" {
		version = "pipefs " + r.Version
	}
	when := ""
	if !r.Time.IsZero() {
		when = r.Time.Format("2 January 2006, 15:04 MST")
	}
	add("Run", when, version)
	return all
}

// sections are those of the views.
func sections(r *views.Report) []Section {
	if len(r.Rows) == 0 {
		return nil
	}
	main := Section{Title: "Views", Table: gains(r)}
	if r.Advice.Base >= 0 && r.Advice.Base < len(r.Rows) {
		main.Notes = append(main.Notes, "Gain is the lasting rate over that of "+r.Rows[r.Advice.Base].View+". The lasting rate is set in bold.")
	} else {
		main.Notes = append(main.Notes, "The lasting rate is set in bold.")
	}
	if r.Rounds > 1 {
		main.Notes = append(main.Notes, "Small figures are 95 % intervals, by the bootstrap. With few rounds they are as wide as the rounds lay apart.")
	}
	all := []Section{main}
	if t := costs(r); t != nil {
		all = append(all, Section{Title: "Where the time goes", Table: t, Notes: []string{"CPU time is that of the lasting epochs; below the daemon's stands what the first epoch took."}})
	}
	if figures := plots(r); len(figures) > 0 {
		all = append(all, Section{Title: "Figures", Figures: figures})
	}
	return all
}

// column of the table of views; it is left out if no row has anything in it.
type column struct {
	head Head
	cell func(row *views.Row) Cell
	keep bool
}

// figure is a cell of what is 0 where it was not measured.
func figure(v float64, format func(float64) string) Cell {
	if v == 0 {
		return Cell{Text: none}
	}
	return Cell{Text: format(v)}
}

// gains is the table of what views are worth, and what they take.
func gains(r *views.Report) *Table {
	// a rate in bold if it is the one that lasts
	rate := func(which func(*views.Row) []float64) func(*views.Row) Cell {
		return func(row *views.Row) Cell {
			values := which(row)
			c := Measured(values)
			lasting := row.Lasting()
			c.Strong = len(values) > 0 && &values[0] == &lasting[0]
			return c
		}
	}
	// bytes that may well be 0 of a row that was measured
	bytes := func(which func(*views.Row) int64) func(*views.Row) Cell {
		return func(row *views.Row) Cell {
			if n := which(row); n != 0 || len(row.Lasting()) > 0 {
				return Cell{Text: Bytes(float64(n))}
			}
			return Cell{Text: none}
		}
	}
	return fill(r, true, []column{
		{head: Head{Name: "View", Words: true}, keep: true, cell: name},
		{head: Head{Name: "Pixels", Words: true}, keep: true, cell: pixels},
		{head: Head{Name: "First", Unit: "samples/s"}, cell: rate(func(r *views.Row) []float64 { return r.First })},
		{head: Head{Name: "Cold", Unit: "samples/s"}, cell: rate(func(r *views.Row) []float64 { return r.Cold })},
		{head: Head{Name: "Cached", Unit: "samples/s"}, cell: rate(func(r *views.Row) []float64 { return r.Cached })},
		{head: Head{Name: "Gain", Unit: "×"}, cell: gain(r)},
		{head: Head{Name: "File", Unit: "a sample"}, cell: func(row *views.Row) Cell {
			return figure(float64(row.FileBytes), Bytes)
		}},
		{head: Head{Name: "Read", Unit: "cold, a sample"}, cell: bytes(func(r *views.Row) int64 { return r.DiskBytes })},
		{head: Head{Name: "Stored", Unit: "a sample"}, cell: bytes(func(r *views.Row) int64 { return r.StoredBytes })},
		{head: Head{Name: "Bottleneck", Words: true}, cell: func(row *views.Row) Cell {
			return Cell{Text: strings.TrimPrefix(row.Bottleneck, "the ")}
		}},
	})
}

// costs is the table of where the time goes; nil where that is not known.
func costs(r *views.Report) *Table {
	t := fill(r, false, []column{
		{head: Head{Name: "View", Words: true}, keep: true, cell: name},
		{head: Head{Name: "Loader CPU", Unit: "ms a sample"}, cell: func(row *views.Row) Cell {
			client, _ := lastingCPU(row)
			return figure(client, Milliseconds)
		}},
		{head: Head{Name: "Daemon CPU", Unit: "ms a sample"}, cell: func(row *views.Row) Cell {
			_, daemon := lastingCPU(row)
			c := figure(daemon, Milliseconds)
			if row.DaemonFirst > 0 {
				c.Small = "first " + Milliseconds(row.DaemonFirst)
			}
			return c
		}},
		{head: Head{Name: "Open to end", Unit: "p50 / p99, ms"}, cell: func(row *views.Row) Cell {
			if row.P50 == 0 && row.P99 == 0 {
				return Cell{Text: none}
			}
			return Cell{Text: Milliseconds(row.P50), Small: Milliseconds(row.P99)}
		}},
		{head: Head{Name: "Accelerator", Unit: "busy; p99 wait"}, cell: func(row *views.Row) Cell {
			if r.Compute == "" || row.Utilisation == 0 {
				return Cell{Text: none}
			}
			return Cell{Text: Number(100*row.Utilisation) + " %", Small: Milliseconds(row.Wait99) + " ms"}
		}},
		{head: Head{Name: "Memory", Unit: "daemon; slab a file"}, cell: func(row *views.Row) Cell {
			c := figure(float64(row.Resident), Bytes)
			if row.Slab > 0 {
				c.Small = Bytes(float64(row.Slab))
			}
			return c
		}},
		{head: Head{Name: "Prep", Unit: "from memory, samples/s"}, cell: func(row *views.Row) Cell { return figure(row.Analysis.Prep, Number) }},
		{head: Head{Name: "Fetch", Unit: "from the disk, samples/s"}, cell: func(row *views.Row) Cell { return figure(row.Analysis.Fetch, Number) }},
	})
	if len(t.Head) == 1 || len(t.Rows) == 0 {
		return nil
	}
	return t
}

// fill makes a table of rows; those without figures only if all are wanted.
func fill(r *views.Report, all bool, columns []column) *Table {
	var rows []Row
	for i := range r.Rows {
		row := &r.Rows[i]
		if !all && len(row.Lasting()) == 0 {
			continue
		}
		filled := Row{Strong: i == r.Advice.Same || i == r.Advice.Lossy}
		if all {
			filled.Error = row.Error
		}
		for j := range columns {
			c := columns[j].cell(row)
			columns[j].keep = columns[j].keep || c.Text != none && c.Text != "" && c.Text != "0 B"
			filled.Cells = append(filled.Cells, c)
		}
		rows = append(rows, filled)
	}
	t := &Table{Rows: rows}
	for j := range columns {
		if columns[j].keep {
			t.Head = append(t.Head, columns[j].head)
		}
	}
	for i := range rows {
		var kept []Cell
		for j, c := range rows[i].Cells {
			if columns[j].keep {
				kept = append(kept, c)
			}
		}
		rows[i].Cells = kept
	}
	return t
}

func name(row *views.Row) Cell {
	c := Cell{Text: row.View}
	if row.Control {
		c.Small = "control, without pipefs"
	}
	return c
}

func pixels(row *views.Row) Cell {
	switch {
	case row.Same && len(row.Lasting()) > 0:
		return Cell{Text: "same"}
	case row.MSSSIM > 0:
		return Cell{Text: "MS-SSIM " + strconv.FormatFloat(row.MSSSIM, 'f', 3, 64)}
	case len(row.Lasting()) == 0:
		return Cell{Text: none}
	}
	return Cell{Text: "other"}
}

func gain(r *views.Report) func(row *views.Row) Cell {
	return func(row *views.Row) Cell {
		i := r.Gain(row)
		switch {
		case i.Median == 0:
			return Cell{Text: none}
		case row == &r.Rows[r.Advice.Base]:
			return Cell{Text: "1"}
		}
		return Within(i, len(row.Lasting()))
	}
}

// lastingCPU is the CPU seconds of a sample in the epochs that a training consists
// of.
func lastingCPU(row *views.Row) (client, daemon float64) {
	if row.Fits && len(row.Cached) > 0 {
		return row.ClientCached, row.DaemonCached
	}
	return row.ClientCold, row.DaemonCold
}

// plots are the figures that there is something to be seen in.
func plots(r *views.Report) []*chart.Figure {
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
	figures := []*chart.Figure{rates(rows, names)}
	figures = append(figures, storage(rows)...)
	figures = append(figures, fidelity(rows)...)
	if r.Compute != "" {
		figures = append(figures, stalls(rows, names)...)
	}
	return append(figures, cpu(rows, names)...)
}

func rates(rows []*views.Row, names []string) *chart.Figure {
	series := []chart.Series{{Name: "first"}, {Name: "cold"}, {Name: "cached"}}
	some := make([]bool, len(series))
	for _, row := range rows {
		for i, values := range [][]float64{row.First, row.Cold, row.Cached} {
			s := &series[i]
			y, low, high := math.NaN(), math.NaN(), math.NaN()
			if len(values) > 0 {
				t := stats.Bootstrap(values)
				y, some[i] = t.Median, true
				if len(values) > 1 {
					low, high = t.Low, t.High
				}
			}
			s.Y, s.Low, s.High = append(s.Y, y), append(s.Low, low), append(s.High, high)
		}
	}
	for i := len(series) - 1; i >= 0; i-- {
		if !some[i] {
			series = slices.Delete(series, i, i+1)
		}
	}
	f := chart.HorizontalBars("Rates of all views", "samples/s", names, series...)
	f.Caption = "First epochs find nothing prepared; cold ones what the mount keeps on its disk; cached ones everything in memory. Lines are 95 % intervals."
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
func byKind(rows []*views.Row, x func(*views.Row) float64) []chart.Series {
	all := make([]chart.Series, len(kinds))
	for i := range all {
		all[i].Name = kinds[i]
	}
	for _, row := range rows {
		s := &all[kindOf(row)]
		rate := row.Rate()
		s.X, s.Y = append(s.X, x(row)), append(s.Y, rate.Median)
		s.Low, s.High = append(s.Low, rate.Low), append(s.High, rate.High)
		s.Labels = append(s.Labels, row.View)
	}
	return slices.DeleteFunc(all, func(s chart.Series) bool { return len(s.X) == 0 })
}

// storage is throughput against bytes: what is kept, and what is read.
func storage(rows []*views.Row) []*chart.Figure {
	var figures []*chart.Figure
	for _, f := range []struct {
		title, label, caption string
		of                    func(*views.Row) int64
	}{
		{"Throughput and storage", "a sample, kept on disk beside the source", "What a view is worth, and what it takes: fast and small is up and to the left.", func(r *views.Row) int64 { return r.StoredBytes }},
		{"Throughput and bytes read", "a sample, read from the disk in a cold epoch", "Where the disk is the bottleneck, rates fall as bytes grow.", func(r *views.Row) int64 { return r.DiskBytes }},
	} {
		unit, factor := unitOf(float64(f.of(slices.MaxFunc(rows, func(a, b *views.Row) int { return cmp.Compare(f.of(a), f.of(b)) }))))
		if len(rows) < 2 || unit == "B" && !slices.ContainsFunc(rows, func(r *views.Row) bool { return f.of(r) > 0 }) {
			continue
		}
		figure := chart.Scatter(f.title, unit+" "+f.label, "samples/s, lasting", byKind(rows, func(r *views.Row) float64 { return float64(f.of(r)) / factor })...)
		figure.Caption = f.caption
		figures = append(figures, figure)
	}
	return figures
}

var scans = regexp.MustCompile(`^scan([0-9]+)$`)

// fidelity is what scans cost and what they show.
func fidelity(rows []*views.Row) []*chart.Figure {
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
	likeness, rate := chart.Series{Name: "MS-SSIM"}, chart.Series{Name: "rate"}
	for _, s := range all {
		x := float64(s.FileBytes) / factor
		ssim := s.MSSSIM
		if s.Same {
			ssim = 1
		}
		if ssim > 0 {
			likeness.X, likeness.Y, likeness.Labels = append(likeness.X, x), append(likeness.Y, ssim), append(likeness.Labels, s.View)
		}
		t := s.Rate()
		rate.X, rate.Y, rate.Labels = append(rate.X, x), append(rate.Y, t.Median), append(rate.Labels, s.View)
		rate.Low, rate.High = append(rate.Low, t.Low), append(rate.High, t.High)
	}
	var figures []*chart.Figure
	if len(likeness.X) > 1 {
		f := chart.Curves("Fidelity: bytes and likeness", unit+" a file", "MS-SSIM, 1 is the same picture", likeness)
		f.Caption = "How much of the picture the first scans show. From 0.95 on the PCR paper takes a scan for safe to train on."
		figures = append(figures, f)
	}
	f := chart.Curves("Fidelity: bytes and rate", unit+" a file", "samples/s, lasting", rate)
	f.Caption = "What fewer scans are worth to this loader."
	return append(figures, f)
}

// stalls are how a cold epoch divides, by DS-Analyzer.
func stalls(rows []*views.Row, names []string) []*chart.Figure {
	series := []chart.Series{{Name: "computing"}, {Name: "prep stall"}, {Name: "fetch stall"}}
	var known []string
	for j, row := range rows {
		a := row.Analysis
		if sum := a.Computing + a.PrepStall + a.FetchStall; math.IsNaN(sum) || sum <= 0 {
			continue
		}
		known = append(known, names[j])
		for i, v := range []float64{a.Computing, a.PrepStall, a.FetchStall} {
			series[i].Y = append(series[i].Y, 100*v)
		}
	}
	if len(known) == 0 {
		return nil
	}
	f := chart.StackedBars("Stalls", "% of a cold epoch", known, series...)
	f.Caption = "What the accelerator does in a cold epoch: it computes, waits for preparation, or waits for the disk."
	return []*chart.Figure{f}
}

func cpu(rows []*views.Row, names []string) []*chart.Figure {
	series := []chart.Series{{Name: "loader"}, {Name: "daemon"}}
	some := false
	for _, row := range rows {
		client, daemon := lastingCPU(row)
		series[0].Y, series[1].Y = append(series[0].Y, 1000*client), append(series[1].Y, 1000*daemon)
		some = some || client+daemon > 0
	}
	if !some {
		return nil
	}
	f := chart.StackedBars("Processor time", "ms of CPU a sample, lasting epochs", names, series...)
	f.Caption = "The daemon computes on the same cores as the loader."
	return []*chart.Figure{f}
}

// terms that the page uses.
func terms(r *views.Report) []Term {
	all := []Term{
		{"First", "The first epoch of a new mount: nothing is prepared, nothing is cached. Every sample is made when it is read."},
		{"Cold", "What the mount has kept on its disk is there, and nothing is in the page cache. Every epoch of a dataset larger than memory is like this."},
		{"Cached", "Everything that a page cache keeps is in it. Epochs from the second on are like this if all files of the view fit in memory."},
		{"Lasting", "The rate of the epochs that a training consists of: cached where all files of the view fit in memory, cold otherwise."},
		{"Control", "The same files on the plain disk, read by the same loader."},
		{"Same pixels", "The loader gets exactly the pixels that it gets from the source. Of others, MS-SSIM says how much they look like it, from 0 to 1; where sizes differ that cannot be said."},
		{"File, read, stored", "Bytes of a sample in the mean: of its file in the view, those that a cold epoch reads from the disk, and those that the view keeps on disk beside the source."},
		{"Open to end", "Seconds from opening a file to its end in a cold epoch, nothing decoded: the median, and what one file in a hundred takes."},
	}
	if r.Compute != "" {
		all = append(all, Term{"Stalls", "After DS-Analyzer: an epoch with the emulated accelerator alone, one from memory, and a cold one. What the second takes longer than the first is the prep stall, what the third takes longer than the second the fetch stall."})
	}
	return all
}

// notes at the foot of the page.
func notes(r *views.Report) []string {
	var all []string
	formats := make([]string, 0, len(r.Pillow))
	for f := range r.Pillow {
		formats = append(formats, f)
	}
	slices.Sort(formats)
	for i, f := range formats {
		formats[i] = fmt.Sprintf("%s %s×", strings.ToUpper(f), Number(r.Pillow[f]))
	}
	if len(formats) > 0 {
		all = append(all, "The built-in loader beside Pillow in the same run (1 is as fast): "+strings.Join(formats, ", ")+". Where it is faster, a loader with Pillow gains more by views that need less decoding, and less by others.")
	}
	return append(all, "Absolute rates hold for this machine at this time; ratios within a run travel better.")
}
