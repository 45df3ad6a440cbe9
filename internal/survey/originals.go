package survey

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/terminal"
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
	t := terminal.Table(w, "originals", "samples", "bytes", "stored beside the scans")
	for _, row := range []struct {
		name string
		originalsRow
	}{{"rebuilt", o.Rebuilt}, {"kept", o.Kept}, {"dropped", o.Dropped}} {
		t.AppendRow(table.Row{row.name, human.Count(row.Samples), human.Size(row.Bytes), human.Size(row.Stored)})
	}
	terminal.Right(t, 2, 3, 4)
	t.Render()
	if n := o.Kept.Samples; n > 0 {
		terminal.Note(w, "%s", human.Plural(n, "original is kept as it was: it", "originals are kept as they were: they")+" cannot be rebuilt from scans, or --originals keep was asked for")
	}
	if n := o.Dropped.Samples; n > 0 {
		terminal.Note(w, "%s", human.Plural(n, "original", "originals")+" cannot be given back without the dataset: mount and export take --dataset DIR; packing again with --originals rebuild adds what is missing")
	}
}
