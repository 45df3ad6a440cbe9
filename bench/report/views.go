package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/human"
)

// OfViews is the document of a comparison of views, or of the splits of a pipeline.
func OfViews(r *views.Report) *Document {
	d := &Document{Source: r.Source, Time: r.Time, Advice: headline(r), Stopped: r.Interrupted && r.Measured(), Facts: factsOf(r), Failures: r.Failures(), Sections: sections(r)}
	if r.Measured() {
		d.Terms = terms(r)
		d.Notes = []string{"Absolute rates hold for this machine at this time. Ratios within a run also hold for similar machines."}
	}
	return d
}

// headline takes the advice apart: "Same pixels: point your loader at …".
func headline(r *views.Report) []Advice {
	var all []Advice
	for _, line := range r.Advice.Lines {
		if command, ok := strings.CutPrefix(line, "  "); ok && len(all) > 0 {
			all[len(all)-1].Commands = append(all[len(all)-1].Commands, command)
			continue
		}
		about, says, ok := strings.Cut(line, ": ")
		if !ok || len(about) > 40 || strings.ContainsAny(about, "/.,") {
			about, says = "", line
		}
		all = append(all, Advice{About: about, Says: says})
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
	return []Advice{{Says: says}}
}

// facts say where and how it was measured.
type facts []views.Term

// add adds a fact of parts, unless all of them are empty.
func (f *facts) add(word string, parts ...string) {
	if parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" }); len(parts) > 0 {
		*f = append(*f, views.Term{Word: word, Meaning: strings.Join(parts, ", ")})
	}
}

// addOthers says how busy the machine was before anything was measured.
func (f *facts) addOthers(share float64) {
	if share > 0 {
		f.add("Not quiet", fmt.Sprintf("other processes used %.0f %% of the processors before it began", 100*share))
	}
}

// positive is a text with a number above 0, or empty.
func positive[T int | int64](n T, text func(T) string) string {
	if n <= 0 {
		return ""
	}
	return text(n)
}

func factsOf(r *views.Report) (f facts) {
	count := func(one, many string) func(int) string {
		return func(n int) string { return human.Plural(n, one, many) }
	}
	pipeline, read := "", ""
	if r.Pipeline != "" {
		pipeline = "for " + r.Pipeline
	}
	if r.Read != r.Samples {
		read = positive(r.Read, func(n int) string { return human.Count(n) + " of them read in an epoch" })
	}
	f.add("Source", r.Source, positive(r.Samples, count("sample", "samples")), read, pipeline)
	if r.LeftOut > 0 {
		f.add("Left out", human.Plural(r.LeftOut, "sample", "samples")+" that cannot be decoded ("+r.Broken+")")
	}
	f.add("Machine", r.Machine.CPU, positive(r.Machine.Cores, count("core", "cores")), positive(r.Machine.Memory, func(n int64) string { return human.Size(n) + " of memory" }), r.Machine.Kernel)
	f.add("Disk", r.Machine.Disk)
	f.add("Loader", r.Loader)
	f.add("Assumed", r.Assumed)
	f.add("Rebuilt", r.Rebuilt)
	if r.Compute != "" {
		f.add("Accelerator", "emulated, "+r.Compute+" (time of a batch / samples in it)")
	}
	f.add("Page cache", positive(r.Memory, func(n int64) string { return "about " + human.Size(n) }))
	f.addOthers(r.Others)
	for _, limit := range r.Limits {
		f.add("Limit", limit)
	}
	f.add("Rounds", positive(r.Rounds, func(n int) string { return human.Count(n) + " by all rows, in random order; figures are medians" }))
	when, version := "", ""
	if !r.Time.IsZero() {
		when = r.Time.Format("2 January 2006, 15:04 MST")
	}
	if r.Version != "" {
		version = "pipefs " + r.Version
	}
	f.add("Run", when, version)
	return f
}

// sections are those of the views.
func sections(r *views.Report) []Section {
	if len(r.Rows) == 0 {
		return nil
	}
	about := func(i int, row *views.Row) Row {
		return Row{Strong: i == r.Advice.Same || i == r.Advice.Lossy, Error: row.Error}
	}
	name := column[views.Row]{Head{Name: "View", Words: true}, func(row *views.Row) Cell { return Cell{Text: row.View} }}
	what := column[views.Row]{Head{Name: of(views.Pixels), Words: true}, func(row *views.Row) Cell { return words(row.Likeness()) }}
	title := "Rates in samples/s: medians and their intervals"
	if r.Pipeline != "" {
		name.head.Name = "Stored"
		what = column[views.Row]{Head{Name: "At each read", Words: true}, func(row *views.Row) Cell { return words(strings.Join(row.Split.Rest, " ")) }}
	}
	all := []Section{{Title: title, Table: tableOf(r.Rows, about, append([]column[views.Row]{name, what}, rateColumns(r)...)...)}}
	notes := &all[0].Notes
	switch base := r.Advice.Base; {
	case len(r.Compared) > 0:
		*notes = append(slices.Clone(r.Compared), "Gain: the lasting rate over that of the plain files for which the loader does the same.")
	case base >= 0 && base < len(r.Rows):
		*notes = append(*notes, "Gain: the lasting rate over that of "+r.Rows[base].View+".")
	}
	if r.Rounds > 1 {
		*notes = append(*notes, capital(r.Intervals())+".")
	}
	*notes = append(*notes, doubts(r)...)
	if r.Memory > 0 {
		*notes = append(*notes, fmt.Sprintf("Epochs from memory last if all files fit in half of the %s that are free.", human.Size(r.Memory)))
	}
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row views.Row) bool { return len(row.Lasting()) == 0 })
	if bars := figures(r, rows); len(bars) > 0 {
		all = append(all, Section{Title: "Figures", Bars: bars})
	}
	plain := func(int, *views.Row) Row { return Row{} }
	if t := tableOf(rows, plain, append([]column[views.Row]{name}, costColumns()...)...); t != nil {
		all = append(all, Section{Title: "What a sample costs", Table: t, Notes: []string{"CPU is that of the lasting epochs."}})
	}
	if t := tableOf(rows, plain, append([]column[views.Row]{name}, waitColumns(r)...)...); t != nil {
		all = append(all, Section{Title: "Where the time goes", Table: t})
	}
	return all
}

// rateColumns are what views are worth.
func rateColumns(r *views.Report) []column[views.Row] {
	// strong if it is the one that lasts
	rate := func(which func(*views.Row) []float64) func(*views.Row) Cell {
		return func(row *views.Row) Cell {
			values := which(row)
			c := measured(values)
			lasting := row.Lasting()
			c.Strong = len(values) > 0 && &values[0] == &lasting[0]
			return c
		}
	}
	return []column[views.Row]{
		{Head{Name: of(views.FromDisk)}, rate(func(r *views.Row) []float64 { return r.Cold })},
		{Head{Name: of(views.FromMemory)}, rate(func(r *views.Row) []float64 { return r.Cached })},
		{Head{Name: of(views.Gain), Unit: "×"}, func(row *views.Row) Cell {
			i := r.Gain(row)
			switch {
			case i.Median == 0:
				return Cell{Text: none}
			case i.Median == 1 && i.Low == 1 && i.High == 1: // the base itself
				return Cell{Text: "1"}
			}
			return within(i, len(row.Lasting()))
		}},
	}
}

// costColumns are what views take.
func costColumns() []column[views.Row] {
	size := func(which func(*views.Row) int64) func(*views.Row) Cell {
		return func(row *views.Row) Cell { return Cell{Text: human.Size(which(row))} }
	}
	return []column[views.Row]{
		{Head{Name: of(views.FirstEpoch), Unit: "samples/s"}, func(row *views.Row) Cell { return Cell{Text: measured(row.First).Text} }},
		{Head{Name: "Storing all"}, func(row *views.Row) Cell { return amount(row.Offline, seconds) }},
		{Head{Name: of(views.File)}, size(func(r *views.Row) int64 { return r.FileBytes })},
		{Head{Name: of(views.Read)}, size(func(r *views.Row) int64 { return r.DiskBytes })},
		{Head{Name: of(views.Kept)}, size(func(r *views.Row) int64 { return r.StoredBytes })},
		{Head{Name: of(views.LoaderCPU), Unit: "ms"}, func(row *views.Row) Cell {
			client, _ := row.CPU()
			return amount(client, Milliseconds)
		}},
		{Head{Name: of(views.DaemonCPU), Unit: "ms"}, func(row *views.Row) Cell {
			_, daemon := row.CPU()
			return amount(daemon, Milliseconds)
		}},
		{Head{Name: "Memory", Unit: "of the daemon"}, func(row *views.Row) Cell { return amount(row.Resident, human.Size) }},
	}
}

// waitColumns are what the lasting epochs wait for.
func waitColumns(r *views.Report) []column[views.Row] {
	emulated := func(cell func(*views.Row) Cell) func(*views.Row) Cell {
		return func(row *views.Row) Cell {
			if r.Compute == "" || row.Analysis.Computing == 0 {
				return Cell{Text: none}
			}
			return cell(row)
		}
	}
	share := func(v float64) Cell { return Cell{Text: human.Percent(v)} }
	return []column[views.Row]{
		{Head{Name: of(views.Bottleneck), Words: true}, func(row *views.Row) Cell { return words(strings.TrimPrefix(row.Bottleneck, "the ")) }},
		{Head{Name: of(views.OpenToEnd), Unit: "p50, p99, ms"}, func(row *views.Row) Cell {
			if row.P50 == 0 && row.P99 == 0 {
				return Cell{Text: none}
			}
			return Cell{Text: Milliseconds(row.P50), Small: Milliseconds(row.P99)}
		}},
		{Head{Name: of(views.Busy), Unit: "p99 wait, ms"}, emulated(func(row *views.Row) Cell {
			c := share(row.Utilisation)
			c.Small = Milliseconds(row.Wait99)
			return c
		})},
		{Head{Name: "Prep stall"}, emulated(func(row *views.Row) Cell { return share(row.Analysis.PrepStall) })},
		{Head{Name: "Fetch stall"}, emulated(func(row *views.Row) Cell { return share(row.Analysis.FetchStall) })},
	}
}

// doubts say which rows are too noisy to be compared, a sentence for each reason.
func doubts(r *views.Report) (all []string) {
	for _, line := range r.Reasons(func(row *views.Row) string { return row.Doubt }) {
		all = append(all, "Too noisy to tell whether faster: "+line+".")
	}
	return all
}

// of is a word as a heading has it.
func of(t views.Term) string { return capital(t.Word) }

// terms are the words that tables have; the text explains those that it cannot do without.
func terms(r *views.Report) []views.Term {
	used := []views.Term{
		views.FromDisk, views.FromMemory, views.FirstEpoch, views.Lasting, views.Gain, views.Pixels,
		views.File, views.Read, views.Kept, views.LoaderCPU, views.DaemonCPU, views.OpenToEnd, views.Bottleneck,
	}
	if r.Compute != "" {
		used = append(used, views.Busy, views.Stalls)
	}
	for i := range used {
		used[i].Word = of(used[i])
	}
	return used
}

// seconds writes a time that may be long.
func seconds(s float64) string {
	switch {
	case s < 100:
		return Number(s) + " s"
	case s < 100*60:
		return Number(s/60) + " min"
	}
	return Number(s/3600) + " h"
}
