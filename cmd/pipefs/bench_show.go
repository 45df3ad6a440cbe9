package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/page"
	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/exit"
)

// show writes the report in every form that was asked for.
func (b *bench) show(r *views.Report) error {
	// What was measured is told even where no page can be written.
	err := b.page(r)
	if b.c.asJSON {
		return errors.Join(err, printJSON(b.env.stdout, r))
	}
	printComparison(b.env.stdout, r)
	return err
}

// page writes the page, if it was asked for.
func (b *bench) page(r *views.Report) error {
	if b.c.html == "" {
		return nil
	}
	return writeWhole(b.c.html, func(w io.Writer) error { return page.Write(w, r) })
}

// checkPage refuses a file that cannot be written, before hours of measuring. The file is
// empty where none was given.
func checkPage(file string) error {
	if file == "" {
		return nil
	}
	dir := filepath.Dir(file)
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return exit.Errorf(exit.Usage, "--html %s is a directory; name a file in it", file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.Usage, "--html: %w", err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.Usage, "--html %s: there is no directory %s; make it first: mkdir -p %[2]s", file, dir)
	} else if err != nil {
		return exit.Errorf(exit.Usage, "--html %s: the directory cannot be written to: %w", file, err)
	}
	return nil
}

// writeWhole writes a file that has its name when it is whole.
func writeWhole(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := renameio.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
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
	if len(r.Compared) > 0 {
		fmt.Fprintln(w, wrap(strings.Join(r.Compared, " "), 0))
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
	fmt.Fprintln(w, "\n"+wrap("Samples/s: medians; "+r.Intervals(), 0))
	head := []any{"view", views.Pixels.Word, views.FromDisk.Word, "interval", views.FromMemory.Word, "interval", views.FirstEpoch.Word}
	if r.Compute != "" {
		head = append(head, views.Busy.Word, "p99 wait")
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
		line := table.Row{row.View, row.Likeness(), cold, coldRange, cached, cachedRange, first}
		if r.Compute != "" {
			line = append(line, percent(row.Utilisation), formatMillis(row.Wait99))
		}
		t.AppendRow(line)
	}
	right(t, 3, 4, 5, 6, 7, 8, 9)
	t.Render()
	fmt.Fprintln(w, "\nA sample costs: bytes; ms of "+views.LoaderCPU.Word+" + "+views.DaemonCPU.Word+"; ms from open to end, p50 and p99")
	t = newTable(w, "view", views.File.Word, views.Read.Word, views.Kept.Word, "CPU "+views.FromDisk.Word, "CPU "+views.FromMemory.Word, views.OpenToEnd.Word, "", views.Bottleneck.Word)
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
			cpuOf(row.ClientCold, row.DaemonCold), cpuOf(row.ClientCached, row.DaemonCached), p50, p99, strings.TrimPrefix(row.Bottleneck, "the ")})
	}
	right(t, 2, 3, 4, 5, 6, 7, 8)
	t.Render()
	fmt.Fprintln(w, wrap(memoryOf(r), 0))
	fmt.Fprintln(w, wrap(explained(views.FromDisk, views.FromMemory, views.Read, views.Kept, views.OpenToEnd), 0))
	if r.Compute != "" {
		printStalls(w, r)
	}
	if d := r.Decoder(); d != "" {
		fmt.Fprintln(w, wrap(d, 0))
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
