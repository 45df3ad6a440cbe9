package text

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/bench/strategy"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/terminal"
)

// cacheColumns are the headings of rates.
var cacheColumns = map[string]string{
	strategy.NoCache: "from the disk/s", strategy.System: "page cache/s", strategy.Application: "in memory/s",
}

// Strategies prints the strategies of a pipeline, and what to do.
func Strategies(w io.Writer, r *strategy.Report) {
	fmt.Fprintf(w, "%s, measured with %s of %s (%s); offline and bytes are what all of them would take\n",
		strings.TrimSuffix(r.Pipeline, "-npy"), human.Count(r.Samples), human.Plural(r.Dataset, "sample", "samples"), human.Size(r.Bytes))
	if len(r.Rows) == 0 {
		fmt.Fprintln(w, "Nothing was measured.")
		return
	}
	varies := func(of func(*strategy.Row) string) bool {
		return slices.ContainsFunc(r.Rows, func(row strategy.Row) bool { return of(&row) != of(&r.Rows[0]) })
	}
	// What is the same everywhere needs no column.
	compressed := varies(func(row *strategy.Row) string { return row.Compression })
	workers := varies(func(row *strategy.Row) string { return fmt.Sprint(row.Workers) })
	caches := slices.DeleteFunc(slices.Clone(strategy.Caches), func(cache string) bool {
		return !slices.ContainsFunc(r.Rows, func(row strategy.Row) bool { return row.Caches[cache] != nil })
	})
	head := []any{"stored"}
	if compressed {
		head = append(head, "compression")
	}
	if workers {
		head = append(head, "workers")
	}
	left := len(head)
	head = append(head, "at each read", "offline", "bytes", "a sample")
	for _, cache := range caches {
		head = append(head, cacheColumns[cache])
	}
	head = append(head, "read", "CPU a sample", "score")
	t := terminal.Table(w, head...)
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := table.Row{row.Split.Name}
		if compressed {
			cells = append(cells, row.Compression)
		}
		if workers {
			cells = append(cells, row.Workers)
		}
		rest := strings.Join(row.Split.Rest, " ")
		if rest == "" {
			rest = "–"
		}
		offline := row.Offline / float64(r.Samples) * float64(r.Dataset)
		cells = append(cells, rest, formatSeconds(offline), human.Size(r.Whole(row.Stored)), human.Size(row.Stored/int64(r.Samples)))
		cpu := ""
		for _, cache := range caches {
			e := row.Caches[cache]
			switch {
			case e == nil:
				cells = append(cells, "")
			case e.Error != "":
				cells = append(cells, "does not fit")
			default:
				cells = append(cells, formatRate(e.Rate()))
				if cpu == "" {
					cpu = formatMillis(e.CPU)
				}
			}
		}
		score := fmt.Sprintf("%.2f", row.Score)
		if i == r.Winner {
			score += " *"
		}
		cells = append(cells, human.Size(int64(row.Bandwidth(r.Samples)))+"/s", cpu, score)
		t.AppendRow(cells)
	}
	var numbers []int
	for i := left + 2; i <= len(head); i++ {
		numbers = append(numbers, i)
	}
	terminal.Right(t, numbers...)
	t.Render()
	printStrategyNotes(w, r)
	for _, line := range adviseStrategy(r) {
		fmt.Fprintln(w, line)
	}
}

// formatSeconds writes a time that may be long.
func formatSeconds(s float64) string {
	switch {
	case s == 0:
		return "–"
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	case s < 100*60:
		return fmt.Sprintf("%.1f min", s/60)
	}
	return fmt.Sprintf("%.1f h", s/3600)
}

func printStrategyNotes(w io.Writer, r *strategy.Report) {
	notes := slices.Clone(r.Notes)
	if r.Partly+r.Unchanged > 0 {
		notes = append(notes, fmt.Sprintf("steps leave out %s that may be masks or that they cannot represent: %s in part, %s altogether",
			human.Plural(r.Partly+r.Unchanged, "sample", "samples"), human.Count(r.Partly), human.Count(r.Unchanged)))
	}
	if n := len(r.Faulty); n > 0 {
		notes = append(notes, fmt.Sprintf("%s no codec can read, and not counted: %s: %s", human.Plural(n, "file that", "files that"), r.Faulty[0].Path, r.Faulty[0].Reason))
	}
	if r.Interrupted {
		notes = append(notes, fmt.Sprintf("interrupted after %s; this is what was measured before", human.Plural(r.Rounds, "round", "rounds")))
	}
	for _, n := range notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

// adviseStrategy says what to do, in terms of pipefs.
func adviseStrategy(r *strategy.Report) []string {
	if r.Winner < 0 {
		return []string{"No strategy has a rate, so none can be chosen."}
	}
	won := &r.Rows[r.Winner]
	if !won.Split.Stored {
		return []string{"Nothing is worth storing: read the files as they are, and run all steps at each read."}
	}
	what := "store the result of " + won.Split.Name
	switch won.Split.Name {
	case strategy.Packed:
		what = "store the files one after another"
	case strategy.Decoded:
		what = "store the pixels"
	}
	if rest := won.Split.Rest; len(rest) > 0 {
		what += " and do " + strings.Join(rest, ", ") + " at each read"
	}
	lines := []string{"Best: " + what + gained(r) + "."}
	view := won.Split.View
	switch {
	case view == "":
		return append(lines, "No view of pipefs holds that.")
	case won.Split.Name == strategy.Packed:
		lines = append(lines, "  pipefs pack --originals keep DATASET STORE")
	case won.Split.InPack:
		lines = append(lines, "  pipefs pack DATASET STORE")
	default:
		lines = append(lines, "  pipefs pack DATASET STORE", "  pipefs materialize STORE "+view)
	}
	lines = append(lines, "  pipefs mount STORE MNT", "  and read MNT/"+view+", in the order in which it is listed if you can: that is how it was measured")
	if won.Compression != strategy.None {
		lines = append(lines, fmt.Sprintf("pipefs stores results as they are: a file system that compresses (btrfs, ZFS) stands for %s.", won.Compression))
	}
	return lines
}

// gained tells the winner's gain, and how sure that is.
func gained(r *strategy.Report) string {
	if r.Base < 0 {
		return ""
	}
	g := fmt.Sprintf(": %.2f times the samples of the files as they are (%.2f to %.2f", r.Gain.Median, r.Gain.Low, r.Gain.High)
	switch {
	case r.Sure:
		return g + ", in rounds that it was not chosen by)"
	case r.Rounds >= 4:
		return g + "; others are as good: the rounds do not agree on the best)"
	}
	return g + ")"
}
