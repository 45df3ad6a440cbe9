package survey

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/transcode"
)

// PrintSteps prints the steps of which views are made.
func PrintSteps(w io.Writer, r *transcode.Registry) {
	t := terminal.Table(w, "step", "argument", "what it does")
	for _, k := range r.Kinds() {
		if k.Name == "decode" { // implied, and never written
			continue
		}
		argument := ""
		if k.Max != 0 {
			argument = fmt.Sprintf("%d to %d", k.Min, k.Max)
		}
		for _, w := range k.More {
			argument += fmt.Sprintf("_%d to %d", w.Min, w.Max)
		}
		t.AppendRow(table.Row{k.Name, argument, k.Brief})
		for _, w := range k.Words {
			name, numbers := w.Name, ""
			if w.Single {
				name, numbers = w.Name+"N", fmt.Sprintf("%d to %d", w.Min, w.Max)
			} else if w.Max != 0 {
				name, numbers = w.Name+"AtoB", fmt.Sprintf("%d to %d", w.Min, w.Max)
			}
			t.AppendRow(table.Row{"  …" + name, numbers, "attached to " + k.Name + ": " + w.Brief})
		}
	}
	t.Render()
	fmt.Fprintln(w, "A view joins steps by hyphens: resize256-grey-png. Where a step needs pixels they\nare decoded without saying so. A view lists its files with the extension of what\nthey are; with the word own at its end it lists them under their own names: bmp-own.\nBegun with the word stored, a view shows only what is materialized (pipefs\nmaterialize) as the steps make it, and the other files as they are, all under their\nown names: stored-bmp.")
}

// Print prints it as a table, with notes.
func (t *Tally) Print(w io.Writer) {
	out := terminal.Table(w, "view", "files", "changed", "unchanged", "size", "for example", "may be masks")
	terminal.Right(out, 3, 4, 5, 7)
	unknown := false
	for _, v := range t.views {
		size := "–"
		switch {
		case v.Exact:
			size = human.Size(v.Bytes)
		default:
			unknown = true
		}
		ext := ""
		if v.Ext != "" {
			ext = "." + v.Ext
		}
		out.AppendRow(table.Row{v.View, ext, human.Count(v.Changed), human.Count(v.Unchanged), size, v.Example, human.Count(v.Spared.Samples)})
	}
	out.Render()
	fmt.Fprintf(w, "%s, %s\n", human.Plural(t.Samples, "sample", "samples"), human.Plural(t.Others, "other file, shown as it is", "other files, shown as they are"))
	fmt.Fprintf(w, "train from %s\n", "MNT/"+strings.Join(t.Recommended, " or MNT/"))
	note := func(format string, args ...any) { terminal.Note(w, format, args...) }
	if text := t.gaps().Describe(); text != "" {
		note("%s", text)
	}
	if t.Looked < t.Samples {
		note("counted on %s of them, evenly spread; --all looks at every one", human.Plural(t.Looked, "sample", "samples"))
	} else if unknown {
		note("– is a size that is not known before the files are made")
	}
	t.NoteTurned(note)
	for _, v := range t.views {
		if text := v.Spared.String(); text != "" {
			note("%s", text)
		}
	}
	if t.Unread > 0 {
		note("%s unchanged in every view, such as %s: %s; pipefs info lists them", human.Plural(t.Unread, "sample appears", "samples appear"), t.example.Path, t.example.Unread)
	}
	t.noteRandom(note)
	t.noteBoxes(note)
	TellRefusals(t.Refused, func(line string) { note("%s", line) })
	if t.Faults > 0 {
		note("%s be read; pipefs info lists them", human.Plural(t.Faults, "sample cannot", "samples cannot"))
	}
}

// TellRefusals says each in a line.
func TellRefusals(refused []*serve.Refusal, tell func(line string)) {
	for i, e := range refused {
		if i == serve.MostTold {
			tell(fmt.Sprintf("%s refused for the same reason", human.Plural(len(refused)-i, "more directory is", "more directories are")))
			return
		}
		tell(e.Error())
	}
}
