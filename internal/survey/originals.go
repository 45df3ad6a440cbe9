package survey

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// originals says how a store gives back the files that it stores in parts, or in
// another format.
type originals struct {
	Rebuilt originalsRow `json:"rebuilt"` // from their parts and little more
	Kept    originalsRow `json:"kept"`    // as they are, beside their parts
	Dropped originalsRow `json:"dropped"` // not at all
	// Saved is what the files that are rebuilt would take, less what rebuilds them.
	Saved int64 `json:"saved_bytes"`
	// Dataset is the size of all files that were packed.
	Dataset int64   `json:"dataset_bytes"`
	Ratio   float64 `json:"ratio"` // the store's size over the dataset's

	registry *transcode.Registry
	verbatim int64 // bytes of samples that are stored as they are
}

// originalsRow counts the files of one kind.
type originalsRow struct {
	Samples int   `json:"samples"`
	Bytes   int64 `json:"bytes"`
	Stored  int64 `json:"stored_bytes"` // of what gives them back, their parts aside
}

func (r *originalsRow) add(bytes, stored int64) {
	r.Samples++
	r.Bytes += bytes
	r.Stored += stored
}

func (o *originals) add(seen mountd.Sample) {
	if seen.Stored == nil {
		return
	}
	original := seen.Stored.Representation(transcode.Original)
	if original != nil {
		o.verbatim += original.Size(0)
	}
	data := o.reconstruction(seen.Stored)
	switch {
	case !inParts(seen.Stored) && original != nil:
	case original != nil:
		o.Kept.add(seen.Size, original.Size(0))
	case data != nil:
		o.Rebuilt.add(seen.Size, data.Size(0))
	default:
		o.Dropped.add(seen.Size, 0)
	}
}

// inParts reports whether a sample is stored in parts, by whatever version.
func inParts(s *store.Sample) bool {
	for i := range s.Representations {
		if len(s.Representations[i].Levels) > 0 {
			return true
		}
	}
	return false
}

// reconstruction is what rebuilds a sample from its parts; nil where this version cannot.
func (o *originals) reconstruction(s *store.Sample) *store.Representation {
	for _, k := range o.registry.Kinds() {
		if k.Split == nil || k.Restore == nil || s.Representation(transcode.SplitKey(k)) == nil {
			continue
		}
		if data := s.Representation(transcode.ReconstructionKey(k)); data != nil {
			return data
		}
	}
	return nil
}

// finish computes what follows from all samples, of so many bytes.
func (o *originals) finish(s *store.Stats, samples int64) {
	o.Saved = o.Rebuilt.Bytes - o.Rebuilt.Stored
	// files that are no samples are stored as they are, too
	o.Dataset = samples + s.Bytes[transcode.Original] - o.verbatim
	if o.Dataset > 0 {
		o.Ratio = float64(s.PackBytes) / float64(o.Dataset)
	}
}

func (o *originals) print(w io.Writer) {
	if o.Rebuilt.Samples+o.Kept.Samples+o.Dropped.Samples == 0 {
		return
	}
	fmt.Fprintln(w)
	t := human.Table(w, "originals", "samples", "bytes", "stored beside the scans")
	for _, row := range []struct {
		name string
		originalsRow
	}{{"rebuilt", o.Rebuilt}, {"kept", o.Kept}, {"dropped", o.Dropped}} {
		t.AppendRow(table.Row{row.name, human.Count(row.Samples), human.Size(row.Bytes), human.Size(row.Stored)})
	}
	human.Right(t, 2, 3, 4)
	t.Render()
	if n := o.Kept.Samples; n > 0 {
		human.Note(w, "%s", human.Plural(n, "original is kept as it was: it", "originals are kept as they were: they")+" cannot be rebuilt from scans, or --originals keep was asked for")
	}
	if n := o.Dropped.Samples; n > 0 {
		human.Note(w, "%s", human.Plural(n, "original", "originals")+" cannot be given back without the dataset: mount and export take --dataset DIR; packing again with --originals rebuild adds what is missing")
	}
}

// PrintSteps prints the steps of which views are made.
func PrintSteps(w io.Writer, r *transcode.Registry) {
	t := human.Table(w, "step", "argument", "what it does")
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
	out := human.Table(w, "view", "files", "changed", "unchanged", "size", "for example", "may be masks")
	human.Right(out, 3, 4, 5, 7)
	unknown := false
	for _, v := range t.Views {
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
	note := func(format string, args ...any) { human.Note(w, format, args...) }
	if text := t.gaps().Describe(); text != "" {
		note("%s", text)
	}
	if t.Looked < t.Samples {
		note("counted on %s of them, evenly spread; --all looks at every one", human.Plural(t.Looked, "sample", "samples"))
	} else if unknown {
		note("– is a size that is not known before the files are made")
	}
	t.NoteTurned(note)
	for _, v := range t.Views {
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
