package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/bench/page"
	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/views"
)

// show writes the report in every form that was asked for.
func (b *bench) show(r *views.Report) error {
	if b.c.html != "" {
		if err := writeWhole(b.c.html, func(w io.Writer) error { return page.Write(w, r) }); err != nil {
			return err
		}
	}
	if b.c.plots != "" {
		if err := os.MkdirAll(b.c.plots, 0o755); err != nil {
			return err
		}
		if err := page.Plots(b.c.plots, r); err != nil {
			return err
		}
	}
	switch {
	case b.c.asJSON:
		return printJSON(b.env.stdout, r)
	case b.c.asCSV:
		return views.CSV(b.env.stdout, r)
	}
	printComparison(b.env.stdout, r)
	return nil
}

// writeWhole writes a file that has its name when it is whole.
func writeWhole(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return renameio.WriteFile(name, b.Bytes(), 0o644)
}

// printComparison prints the report as tables.
func printComparison(w io.Writer, r *views.Report) {
	fmt.Fprintf(w, "%s\n", wrap(fmt.Sprintf("%s of %s of %s, %s, read by %s", formatCount(r.Read), plural(r.Samples, "sample", "samples"), r.Source, plural(r.Rounds, "round", "rounds"), r.Loader), 0))
	if r.LeftOut > 0 {
		fmt.Fprintln(w, wrap(fmt.Sprintf("%s left out that cannot be decoded (%s)", plural(r.LeftOut, "sample", "samples"), r.Broken), 0))
	}
	if r.Assumed != "" {
		fmt.Fprintln(w, wrap("assumed: "+r.Assumed, 0))
	}
	if r.Rebuilt != "" {
		fmt.Fprintln(w, wrap(r.Rebuilt, 0))
	}
	for _, line := range r.Limits {
		fmt.Fprintln(w, wrap("limits: "+line, 0))
	}
	if r.Measured() {
		printFigures(w, r)
	}
	for _, line := range r.Failures() {
		fmt.Fprintln(w, line)
	}
	if len(r.Advice.Lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", r.Advice)
	}
}

// printFigures prints the tables, and what there is to know to read them.
func printFigures(w io.Writer, r *views.Report) {
	interval := "where it lies in 95 of 100 repetitions"
	if r.Rounds < sure {
		interval = "about the lowest and the highest: for more it takes " + plural(sure, "round", "rounds")
	}
	fmt.Fprintln(w, "\nSamples/s: median, and "+interval)
	head := []any{"view", "pixels", "from the disk", "", "from memory", "", "first", "MB read"}
	if r.Compute != "" {
		head = append(head, "utilisation", "p99 wait")
	}
	t := newTable(w, head...)
	for i := range r.Rows {
		row := &r.Rows[i]
		mark := ""
		if i == r.Advice.Same || i == r.Advice.Lossy {
			mark = " *"
		}
		if row.Error != "" && len(row.Lasting()) == 0 {
			t.AppendRow(table.Row{row.View, "no figures"})
			continue
		}
		cold, coldRange := rateOf(row.Cold)
		cached, cachedRange := rateOf(row.Cached)
		first, _ := rateOf(row.First)
		if row.Fits {
			cached += mark
		} else {
			cold += mark
		}
		line := table.Row{row.View, likenessOf(row), cold, coldRange, cached, cachedRange, first, fmt.Sprintf("%.3g", float64(row.FileBytes)*float64(r.Read)/1e6)}
		if r.Compute != "" {
			line = append(line, percent(row.Utilisation), formatMillis(row.Wait99))
		}
		t.AppendRow(line)
	}
	right(t, 3, 4, 5, 6, 7, 8, 9, 10)
	t.Render()
	fmt.Fprintln(w, "\nA sample costs: bytes, and milliseconds of processor time of loader + daemon")
	t = newTable(w, "view", "file", "from disk", "kept", "disk: CPU", "memory: CPU", "p50", "p99", "what limits it")
	for i := range r.Rows {
		row := &r.Rows[i]
		if len(row.Lasting()) == 0 {
			continue
		}
		p50, p99 := "", ""
		if row.P99 > 0 {
			p50, p99 = fmt.Sprintf("%.2f", 1000*row.P50), fmt.Sprintf("%.2f", 1000*row.P99)
		}
		t.AppendRow(table.Row{row.View, formatSize(row.FileBytes), formatSize(row.DiskBytes), formatSize(row.StoredBytes),
			cpuOf(row.ClientCold, row.DaemonCold), cpuOf(row.ClientCached, row.DaemonCached), p50, p99, row.Bottleneck})
	}
	right(t, 2, 3, 4, 5, 6, 7, 8)
	t.Render()
	fmt.Fprintln(w, wrap(memoryOf(r)+" p50 and p99 are ms from open to the end of a file, from the disk, nothing decoded by the reader. Kept is what the mount keeps on its disk; first is the epoch that makes it.", 0))
	if r.Compute != "" {
		printStalls(w, r)
	}
	if len(r.Pillow) > 0 {
		var parts []string
		for format, ratio := range r.Pillow {
			parts = append(parts, fmt.Sprintf("%s %.2f", format, ratio))
		}
		slices.Sort(parts)
		fmt.Fprintln(w, wrap("The loader of pipefs decodes as fast as Pillow does, in this run, times: "+strings.Join(parts, ", ")+".", 0))
	}
}

// sure is how many rounds it takes for an interval to be one of 95 in 100.
const sure = 6

// printStalls prints where the time of an epoch goes, as DS-Analyzer does.
func printStalls(w io.Writer, r *views.Report) {
	fmt.Fprintf(w, "\nWhere the time of an epoch from the disk goes, with an accelerator of %s; rates in samples/s\n", r.Compute)
	t := newTable(w, "view", "ingest", "prep", "fetch", "computing", "prep stall", "fetch stall")
	for i := range r.Rows {
		a := &r.Rows[i].Analysis
		if a.Ingest == 0 {
			continue
		}
		fetch := "undefined"
		if a.Fetch > 0 {
			fetch = formatRate(a.Fetch)
		}
		t.AppendRow(table.Row{r.Rows[i].View, formatRate(a.Ingest), formatRate(a.Prep), fetch, percent(a.Computing), percent(a.PrepStall), percent(a.FetchStall)})
	}
	right(t, 2, 3, 4, 5, 6, 7)
	t.Render()
}

// likenessOf says how a view's pixels relate to the source's.
func likenessOf(row *views.Row) string {
	switch {
	case row.Same:
		return "same"
	case row.MSSSIM > 0:
		return fmt.Sprintf("MS-SSIM %.3f", row.MSSSIM)
	}
	return "others"
}

func rateOf(rates []float64) (median, interval string) {
	if len(rates) == 0 {
		return "", ""
	}
	i := stats.Bootstrap(rates)
	if len(rates) < 2 {
		return formatRate(i.Median), ""
	}
	return formatRate(i.Median), formatRate(i.Low) + "–" + formatRate(i.High)
}

func cpuOf(client, daemon float64) string {
	if daemon == 0 {
		return fmt.Sprintf("%.2f", 1000*client)
	}
	return fmt.Sprintf("%.2f + %.2f", 1000*client, 1000*daemon)
}

// memoryOf says how much memory daemons took.
func memoryOf(r *views.Report) string {
	var resident, slab int64
	for i := range r.Rows {
		resident, slab = max(resident, r.Rows[i].Resident), max(slab, r.Rows[i].Slab)
	}
	s := ""
	if resident > 0 {
		s = fmt.Sprintf("No daemon took more than %s", formatSize(resident))
		if slab > 0 {
			s += fmt.Sprintf(", and the kernel %s a file", formatSize(slab))
		}
		s += "."
	}
	best := "No view is marked as the best;"
	if r.Advice.Same >= 0 || r.Advice.Lossy >= 0 {
		best = "* is the best;"
	}
	return s + fmt.Sprintf(" %s epochs from memory count if all files fit in half of the %s that are free.", best, formatSize(r.Memory))
}
