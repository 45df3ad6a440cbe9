package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/human"
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
	case r.Interrupted && !r.Measured():
		says = "Interrupted before anything was measured"
	case len(r.Rows) > 0 && !r.Measured():
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
		samples = human.Plural(r.Samples, "sample", "samples")
	}
	if r.Read > 0 && r.Read != r.Samples {
		samples += ", " + human.Count(r.Read) + " of them read in an epoch"
	}
	add("Source", r.Source, strings.TrimPrefix(samples, ", "))
	cores := ""
	if r.Machine.Cores > 0 {
		cores = human.Plural(r.Machine.Cores, "core", "cores")
	}
	add("Machine", r.Machine.CPU, cores, size(r.Machine.Memory, "%s of memory"), r.Machine.Kernel)
	add("Disk", r.Machine.Disk)
	add("Loader", r.Loader)
	add("Assumed", r.Assumed)
	if r.Compute != "" {
		add("Accelerator", "emulated, "+r.Compute+" (time of a batch / samples in it)")
	}
	add("Page cache", size(r.Memory, "about %s"))
	for _, limit := range r.Limits {
		add("Limit", limit)
	}
	if r.Rounds > 0 {
		add("Rounds", human.Count(r.Rounds)+" by all rows, in random order; figures are medians")
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
	main.Notes = append(main.Notes, r.Compared...)
	switch {
	case len(r.Compared) > 0:
		main.Notes = append(main.Notes, "Gain is the lasting rate over that of the plain files for which the loader does the same. The lasting rate is set in bold.")
	case r.Advice.Base >= 0 && r.Advice.Base < len(r.Rows):
		main.Notes = append(main.Notes, "Gain is the lasting rate over that of "+r.Rows[r.Advice.Base].View+". The lasting rate is set in bold.")
	default:
		main.Notes = append(main.Notes, "The lasting rate is set in bold.")
	}
	if r.Rounds > 1 {
		main.Notes = append(main.Notes, capital(r.Intervals())+".")
	}
	main.Notes = append(main.Notes, doubts(r)...)
	all := []Section{main}
	if t := costs(r); t != nil {
		all = append(all, Section{Title: "Where the time goes", Table: t, Notes: []string{"CPU time is that of the lasting epochs; below the daemon's stands that of the first epoch."}})
	}
	if figures := plots(r); len(figures) > 0 {
		all = append(all, Section{Title: "Figures", Figures: figures})
	}
	return all
}

// doubts say which rows are too noisy to be compared, a sentence for each reason.
func doubts(r *views.Report) (all []string) {
	rows := map[string][]string{}
	var reasons []string
	for i := range r.Rows {
		if why := r.Rows[i].Doubt; why != "" {
			if rows[why] == nil {
				reasons = append(reasons, why)
			}
			rows[why] = append(rows[why], r.Rows[i].View)
		}
	}
	for _, why := range reasons {
		all = append(all, "Too noisy to tell whether faster: "+strings.Join(rows[why], ", ")+": "+why+".")
	}
	return all
}

// column of the table of views; it is left out if no row has anything in it.
type column struct {
	head Head
	cell func(row *views.Row) Cell
	keep bool
}

// amount is a cell of what is 0 where it was not measured.
func amount(v float64, format func(float64) string) Cell {
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
		{head: Head{Name: of(views.Pixels), Words: true}, keep: true, cell: pixels},
		{head: Head{Name: of(views.FirstEpoch), Unit: "samples/s"}, cell: rate(func(r *views.Row) []float64 { return r.First })},
		{head: Head{Name: of(views.FromDisk), Unit: "samples/s"}, cell: rate(func(r *views.Row) []float64 { return r.Cold })},
		{head: Head{Name: of(views.FromMemory), Unit: "samples/s"}, cell: rate(func(r *views.Row) []float64 { return r.Cached })},
		{head: Head{Name: of(views.Gain), Unit: "×"}, cell: gain(r)},
		{head: Head{Name: of(views.File), Unit: "a sample"}, cell: func(row *views.Row) Cell {
			return amount(float64(row.FileBytes), Bytes)
		}},
		{head: Head{Name: of(views.Read), Unit: "a sample"}, cell: bytes(func(r *views.Row) int64 { return r.DiskBytes })},
		{head: Head{Name: of(views.Kept), Unit: "a sample"}, cell: bytes(func(r *views.Row) int64 { return r.StoredBytes })},
		{head: Head{Name: of(views.Bottleneck), Words: true}, cell: func(row *views.Row) Cell {
			return Cell{Text: strings.TrimPrefix(row.Bottleneck, "the ")}
		}},
	})
}

// costs is the table of where the time goes; nil where that is not known.
func costs(r *views.Report) *Table {
	t := fill(r, false, []column{
		{head: Head{Name: "View", Words: true}, keep: true, cell: name},
		{head: Head{Name: of(views.LoaderCPU), Unit: "ms a sample"}, cell: func(row *views.Row) Cell {
			client, _ := row.CPU()
			return amount(client, Milliseconds)
		}},
		{head: Head{Name: of(views.DaemonCPU), Unit: "ms a sample"}, cell: func(row *views.Row) Cell {
			_, daemon := row.CPU()
			c := amount(daemon, Milliseconds)
			if row.DaemonFirst > 0 {
				c.Small = views.FirstEpoch.Word + " " + Milliseconds(row.DaemonFirst)
			}
			return c
		}},
		{head: Head{Name: of(views.OpenToEnd), Unit: "p50 / p99, ms"}, cell: func(row *views.Row) Cell {
			if row.P50 == 0 && row.P99 == 0 {
				return Cell{Text: none}
			}
			return Cell{Text: Milliseconds(row.P50), Small: Milliseconds(row.P99)}
		}},
		{head: Head{Name: of(views.Busy), Unit: "p99 wait"}, cell: func(row *views.Row) Cell {
			if r.Compute == "" || row.Utilisation == 0 {
				return Cell{Text: none}
			}
			return Cell{Text: Number(100*row.Utilisation) + " %", Small: Milliseconds(row.Wait99) + " ms"}
		}},
		{head: Head{Name: "Memory", Unit: "daemon; slab a file"}, cell: func(row *views.Row) Cell {
			c := amount(float64(row.Resident), Bytes)
			if row.Slab > 0 {
				c.Small = Bytes(float64(row.Slab))
			}
			return c
		}},
		{head: Head{Name: "Prep", Unit: "from memory, samples/s"}, cell: func(row *views.Row) Cell { return amount(row.Analysis.Prep, Number) }},
		{head: Head{Name: "Fetch", Unit: "from the disk, samples/s"}, cell: func(row *views.Row) Cell { return amount(row.Analysis.Fetch, Number) }},
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

func pixels(row *views.Row) Cell { return Cell{Text: cmp.Or(row.Likeness(), none)} }

// of is a word as a heading has it.
func of(t views.Term) string { return capital(t.Word) }

func gain(r *views.Report) func(row *views.Row) Cell {
	return func(row *views.Row) Cell {
		i := r.Gain(row)
		switch {
		case i.Median == 0:
			return Cell{Text: none}
		case i.Median == 1 && i.Low == 1 && i.High == 1: // the base itself
			return Cell{Text: "1"}
		}
		return Within(i, len(row.Lasting()))
	}
}

// terms that the page uses.
func terms(r *views.Report) []Term {
	used := []views.Term{
		views.FirstEpoch, views.FromDisk, views.FromMemory, views.Lasting, views.Gain, views.Control, views.Pixels,
		views.File, views.Read, views.Kept, views.LoaderCPU, views.DaemonCPU, views.OpenToEnd, views.Bottleneck,
	}
	if r.Compute != "" {
		used = append(used, views.Busy, views.Stalls)
	}
	all := make([]Term, len(used))
	for i, t := range used {
		all[i] = Term{of(t), t.Meaning}
	}
	return all
}

// notes at the foot of the page.
func notes(r *views.Report) []string {
	var all []string
	if d := r.Decoder(); d != "" {
		all = append(all, d)
	}
	return append(all, "Absolute rates hold for this machine at this time. Ratios within a run also hold for similar machines.")
}
