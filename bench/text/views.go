package text

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/terminal"
)

// Views prints the report as tables.
func Views(w io.Writer, r *views.Report) {
	fmt.Fprintf(w, "%s\n", terminal.Wrap(fmt.Sprintf("%s of %s of %s, %s, read by %s", human.Count(r.Read), human.Plural(r.Samples, "sample", "samples"), r.Source, human.Plural(r.Rounds, "round", "rounds"), r.Loader), 0))
	if r.LeftOut > 0 {
		fmt.Fprintln(w, terminal.Wrap(fmt.Sprintf("%s left out that cannot be decoded (%s)", human.Plural(r.LeftOut, "sample", "samples"), r.Broken), 0))
	}
	if r.Assumed != "" {
		fmt.Fprintln(w, terminal.Wrap("assumed: "+r.Assumed, 0))
	}
	if r.Rebuilt != "" {
		fmt.Fprintln(w, terminal.Wrap(r.Rebuilt, 0))
	}
	for _, line := range r.Limits {
		fmt.Fprintln(w, terminal.Wrap("limits: "+line, 0))
	}
	if len(r.Compared) > 0 {
		fmt.Fprintln(w, terminal.Wrap(strings.Join(r.Compared, " "), 0))
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
	fmt.Fprintln(w, "\n"+terminal.Wrap("Samples/s: medians; "+r.Intervals(), 0))
	head := []any{"view", views.Pixels.Word, views.FromDisk.Word, "interval", views.FromMemory.Word, "interval", views.FirstEpoch.Word}
	if r.Compute != "" {
		head = append(head, views.Busy.Word, "p99 wait")
	}
	t := terminal.Table(w, head...)
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
		line := table.Row{row.View, row.Likeness(), cold, coldRange, cached, cachedRange, first}
		if r.Compute != "" {
			line = append(line, human.Percent(row.Utilisation), formatMillis(row.Wait99))
		}
		t.AppendRow(line)
	}
	terminal.Right(t, 3, 4, 5, 6, 7, 8, 9)
	t.Render()
	fmt.Fprintln(w, "\nA sample costs: bytes; ms of "+views.LoaderCPU.Word+" + "+views.DaemonCPU.Word+"; ms from open to end, p50 and p99")
	t = terminal.Table(w, "view", views.File.Word, views.Read.Word, views.Kept.Word, "CPU "+views.FromDisk.Word, "CPU "+views.FromMemory.Word, views.OpenToEnd.Word, "", views.Bottleneck.Word)
	for i := range r.Rows {
		row := &r.Rows[i]
		if len(row.Lasting()) == 0 {
			continue
		}
		p50, p99 := "", ""
		if row.P99 > 0 {
			p50, p99 = fmt.Sprintf("%.2f", 1000*row.P50), fmt.Sprintf("%.2f", 1000*row.P99)
		}
		t.AppendRow(table.Row{row.View, human.Size(row.FileBytes), human.Size(row.DiskBytes), human.Size(row.StoredBytes),
			cpuOf(row.ClientCold, row.DaemonCold), cpuOf(row.ClientCached, row.DaemonCached), p50, p99, strings.TrimPrefix(row.Bottleneck, "the ")})
	}
	terminal.Right(t, 2, 3, 4, 5, 6, 7, 8)
	t.Render()
	fmt.Fprintln(w, terminal.Wrap(memoryOf(r), 0))
	fmt.Fprintln(w, terminal.Wrap(explained(views.FromDisk, views.FromMemory, views.Read, views.Kept, views.OpenToEnd), 0))
	if r.Compute != "" {
		printStalls(w, r)
	}
	if d := r.Decoder(); d != "" {
		fmt.Fprintln(w, terminal.Wrap(d, 0))
	}
}

// explained says what words of the tables mean.
func explained(terms ...views.Term) string {
	var all []string
	for _, t := range terms {
		all = append(all, capital(t.Word)+": "+t.Meaning)
	}
	return strings.Join(all, " ")
}

// printStalls prints where the time of an epoch goes, as DS-Analyzer does.
func printStalls(w io.Writer, r *views.Report) {
	fmt.Fprintf(w, "\nWhere the time of an epoch from the disk goes, with an accelerator of %s; rates in samples/s\n", r.Compute)
	t := terminal.Table(w, "view", "ingest", "prep", "fetch", "computing", "prep stall", "fetch stall")
	for i := range r.Rows {
		a := &r.Rows[i].Analysis
		if a.Ingest == 0 {
			continue
		}
		fetch := "undefined"
		if a.Fetch > 0 {
			fetch = formatRate(a.Fetch)
		}
		t.AppendRow(table.Row{r.Rows[i].View, formatRate(a.Ingest), formatRate(a.Prep), fetch, human.Percent(a.Computing), human.Percent(a.PrepStall), human.Percent(a.FetchStall)})
	}
	terminal.Right(t, 2, 3, 4, 5, 6, 7)
	t.Render()
}

// capital begins a word of ASCII letters with a capital one.
func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

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
		s = fmt.Sprintf("No daemon took more than %s", human.Size(resident))
		if slab > 0 {
			s += fmt.Sprintf(", and the kernel %s a file", human.Size(slab))
		}
		s += "."
	}
	best := "No view is marked as the best;"
	if r.Advice.Same >= 0 || r.Advice.Lossy >= 0 {
		best = "* is the best;"
	}
	return s + fmt.Sprintf(" %s epochs from memory count if all files fit in half of the %s that are free.", best, human.Size(r.Memory))
}
