package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// mostFaults is how many faults are listed where nobody asked for JSON.
const mostFaults = 100

func infoCommand(env *environ) *command {
	var asJSON bool
	return &command{
		name: "info", args: "STORE|DATASET", min: 1, max: 1,
		brief: "show what a dataset or a store holds",
		about: "Of a dataset: how many samples it has of each format and mode, and which of them are broken; the header of every sample is read for that. Of a store: also what it was packed from and how, and the bytes that each representation takes.",
		examples: []example{
			{"pipefs info ~/imagenet", "formats, modes, broken files"},
			{"pipefs info /data/in.store", "the same, and how it is packed"},
			{"pipefs info --json ~/imagenet | jq -r '.faults[].path'", "all broken files"},
		},
		words:   []string{"sample", "store", "record"},
		options: []*option{{name: "json", set: intoBool(&asJSON), help: "print JSON, with all faults"}},
		run: func(ctx context.Context, args []string) error {
			i, err := inspect(ctx, env, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(env.stdout, i)
			}
			i.print(env.stdout)
			return nil
		},
	}
}

// information is what info tells.
type information struct {
	Path      string       `json:"path"`
	Store     *store.Stats `json:"store,omitempty"` // of a store only
	Samples   int          `json:"samples"`
	Others    int          `json:"other_files"`
	Dirs      int          `json:"directories"`
	Bytes     int64        `json:"sample_bytes"` // of the originals
	Formats   []formatRow  `json:"formats"`
	Turned    int          `json:"orientation"` // an EXIF orientation other than 1
	Animated  int          `json:"animated"`
	Unscanned int          `json:"jpeg_without_scans"`
	Faults    []fault      `json:"faults"`
	byKind    map[formatRow]*formatRow
}

// formatRow counts the samples of one format and mode.
type formatRow struct {
	Format  string `json:"format"`
	Mode    string `json:"mode"`
	Samples int    `json:"samples"`
	Bytes   int64  `json:"bytes"`
}

// fault is a sample that cannot be read, and why.
type fault struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func inspect(ctx context.Context, env *environ, name string) (*information, error) {
	s, err := openSource(env, name)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r := registry(transcode.Limits{})
	l, err := s.list(r, func(err error) { fmt.Fprintf(env.stderr, "pipefs: left out: %v\n", err) }, ctx.Err)
	if err != nil {
		return nil, err
	}
	i := &information{Path: s.path, Samples: len(l.samples), Others: l.others, Dirs: l.dirs,
		Faults: []fault{}, byKind: map[formatRow]*formatRow{}}
	if s.store != nil {
		stats := s.store.Stats()
		i.Store = &stats
	}
	bar := newProgress(env, "looking at samples", len(l.samples))
	err = s.lookAll(ctx, r, l.samples, func(seen sight) {
		bar.add(1)
		i.add(seen)
	})
	bar.done()
	if err != nil {
		return nil, err
	}
	i.Formats = []formatRow{}
	for _, row := range i.byKind {
		i.Formats = append(i.Formats, *row)
	}
	slices.SortFunc(i.Formats, func(a, b formatRow) int {
		return cmp.Or(b.Samples-a.Samples, cmp.Compare(a.Format, b.Format), cmp.Compare(a.Mode, b.Mode))
	})
	slices.SortFunc(i.Faults, func(a, b fault) int { return cmp.Compare(a.Path, b.Path) })
	return i, nil
}

func (i *information) add(seen sight) {
	i.Bytes += seen.size
	if seen.fault != "" {
		i.Faults = append(i.Faults, fault{seen.path, seen.fault})
		return
	}
	kind := formatRow{Format: seen.info.Format.String(), Mode: seen.info.Mode.String()}
	row := i.byKind[kind]
	if row == nil {
		row = &formatRow{Format: kind.Format, Mode: kind.Mode}
		i.byKind[kind] = row
	}
	row.Samples++
	row.Bytes += seen.size
	if seen.info.Orientation > 1 {
		i.Turned++
	}
	if seen.info.Animated {
		i.Animated++
	}
	if seen.info.Format == transcode.JPEG && !seen.info.Scannable {
		i.Unscanned++
	}
}

func (i *information) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s%s\n", name, fmt.Sprintf(format, args...))
	}
	if i.Store != nil {
		line("store", "%s", i.Path)
		line("dataset", "%s", i.Store.Dataset)
	} else {
		line("dataset", "%s", i.Path)
	}
	line("samples", "%s (%s)", formatCount(i.Samples), formatSize(i.Bytes))
	line("other files", "%s", formatCount(i.Others))
	line("directories", "%s", formatCount(i.Dirs))
	if i.Store != nil {
		i.printStore(w, line)
	}
	fmt.Fprintln(w)
	t := newTable(w, "format", "mode", "samples", "bytes")
	for _, row := range i.Formats {
		t.AppendRow(table.Row{row.Format, row.Mode, formatCount(row.Samples), formatSize(row.Bytes)})
	}
	right(t, 3, 4)
	t.Render()
	for _, n := range []struct {
		count int
		text  string
	}{
		{i.Turned, "with an EXIF orientation, which views do not apply unless they begin with upright"},
		{i.Animated, "with several frames, which views leave unchanged"},
		{i.Unscanned, "of JPEG that cannot be stored scan by scan, and that scan views leave unchanged"},
	} {
		if n.count > 0 {
			fmt.Fprintf(w, "note: %s\n", wrap(plural(n.count, "sample ", "samples ")+n.text, 6))
		}
	}
	i.printFaults(w)
}

func (i *information) printStore(w io.Writer, line func(name, format string, args ...any)) {
	s := i.Store
	order := string(s.Order)
	if s.Order == store.OrderShuffle {
		order += fmt.Sprintf(", seed %d", s.Seed)
	}
	line("order", "%s, %s a record", order, plural(s.RecordImages, "sample", "samples"))
	line("packs", "%s, %s", formatCount(s.Packs), formatSize(s.PackBytes))
	line("records", "%s", formatCount(s.Records))
	if i.Bytes > 0 {
		line("ratio", "%.2f of the samples' own size", float64(s.PackBytes)/float64(i.Bytes))
	}
	fmt.Fprintln(w)
	t := newTable(w, "representation", "bytes")
	for _, key := range slices.Sorted(maps.Keys(s.Bytes)) {
		t.AppendRow(table.Row{key, formatSize(s.Bytes[key])})
	}
	right(t, 2)
	t.Render()
}

func (i *information) printFaults(w io.Writer) {
	if len(i.Faults) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s be read:\n", plural(len(i.Faults), "sample cannot", "samples cannot"))
	for n, f := range i.Faults {
		if n == mostFaults {
			fmt.Fprintf(w, "  and %s more; --json lists all\n", formatCount(len(i.Faults)-n))
			break
		}
		fmt.Fprintf(w, "  %s: %s\n", f.Path, f.Reason)
	}
}

// right aligns columns of numbers.
func right(t table.Writer, columns ...int) {
	configs := make([]table.ColumnConfig, len(columns))
	for i, n := range columns {
		configs[i] = table.ColumnConfig{Number: n, Align: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
}
