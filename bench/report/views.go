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
	d := &Document{Source: r.Source, Time: r.Time, Advice: headline(r), Stopped: r.Interrupted && r.Measured(), Facts: facts(r), Lines: lines(r), Failures: r.Failures(), Sections: sections(r)}
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

// othersBefore says how busy the machine was before anything was measured.
func othersBefore(share float64) string {
	return fmt.Sprintf("other processes used %.0f %% of the processors before it began", 100*share)
}

// lines say where and how it was measured, for a terminal.
func lines(r *views.Report) []string {
	what := human.Plural(r.Samples, "sample", "samples")
	if r.Pipeline != "" {
		what += ", for " + r.Pipeline
	}
	all := []string{fmt.Sprintf("%s of %s of %s, %s, read by %s", human.Count(r.Read), what, r.Source, human.Plural(r.Rounds, "round", "rounds"), r.Loader)}
	if r.LeftOut > 0 {
		all = append(all, fmt.Sprintf("%s left out that cannot be decoded (%s)", human.Plural(r.LeftOut, "sample", "samples"), r.Broken))
	}
	if r.Assumed != "" {
		all = append(all, "assumed: "+r.Assumed)
	}
	if r.Rebuilt != "" {
		all = append(all, r.Rebuilt)
	}
	for _, line := range r.Limits {
		all = append(all, "limits: "+line)
	}
	if r.Others > 0 {
		all = append(all, "not quiet: "+othersBefore(r.Others))
	}
	return all
}

// facts say where and how it was measured.
func facts(r *views.Report) []Term {
	var all []Term
	add := func(word string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			all = append(all, Term{Word: word, Meaning: strings.Join(parts, ", ")})
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
	add("Rebuilt", r.Rebuilt)
	if r.Compute != "" {
		add("Accelerator", "emulated, "+r.Compute+" (time of a batch / samples in it)")
	}
	add("Page cache", size(r.Memory, "about %s"))
	if r.Others > 0 {
		add("Other processes", othersBefore(r.Others))
	}
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
	if bars := figures(r); len(bars) > 0 {
		all = append(all, Section{Title: "Figures", Bars: bars})
	}
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row views.Row) bool { return len(row.Lasting()) == 0 })
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
		return func(row *views.Row) Cell { return Cell{Text: Bytes(float64(which(row)))} }
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
		{Head{Name: "Memory", Unit: "of the daemon"}, func(row *views.Row) Cell { return amount(float64(row.Resident), Bytes) }},
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

// of is a word as a heading has it.
func of(t views.Term) string { return capital(t.Word) }

// terms are the words that tables have; the text explains those that it cannot do without.
func terms(r *views.Report) []Term {
	used := []views.Term{
		views.FromDisk, views.FromMemory, views.FirstEpoch, views.Lasting, views.Gain, views.Pixels,
		views.File, views.Read, views.Kept, views.LoaderCPU, views.DaemonCPU, views.OpenToEnd, views.Bottleneck,
	}
	if r.Compute != "" {
		used = append(used, views.Busy, views.Stalls)
	}
	all := make([]Term, len(used))
	for i, t := range used {
		all[i] = Term{of(t), t.Meaning, slices.Contains([]views.Term{views.FromDisk, views.FromMemory, views.Read, views.Kept, views.OpenToEnd}, t)}
	}
	return all
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
