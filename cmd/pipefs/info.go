package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// mostFaults is how many faults are listed where nobody asked for JSON.
const mostFaults = 100

func infoCommand(env *environ) *cli.Command {
	var asJSON, similar bool
	var measured int
	var limits transcode.Limits
	var access remote.Access
	return &cli.Command{
		Name: "info", ArgsUsage: "STORE|DATASET", Category: stores, Usage: "summarize a dataset or a store",
		Description: "Counts the samples of each format and mode, and lists broken ones. Of a store it also shows how it was packed, the bytes of each representation, how originals are restored, and which views are materialized. --mssim measures how similar the pictures of MNT/scan1 … scan10 are to the complete ones.",
		UsageText: `pipefs info ~/imagenet
pipefs info /data/in.store
pipefs info --json ~/imagenet | jq -r '.faults[].path'
pipefs info --mssim ~/imagenet      # which fidelity to train from`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "mssim", Destination: &similar, Usage: "measure how similar some samples are at each fidelity (1 is equal)"},
			opt("samples", "N", fmt.Sprint(usuallyMeasured), intoInt(&measured, 1, 1<<30), "set how many samples --mssim measures"),
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON, with all faults"},
		}, remoteFlags(&access), limitFlags(&limits)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			if measured > 0 && !similar {
				return exit.Errorf(exit.Usage, "--samples goes with --mssim: pipefs info --mssim --samples %d %s", measured, args[0])
			}
			var l *mssim.Survey
			if similar {
				l = &mssim.Survey{Wanted: cmp.Or(measured, usuallyMeasured)}
			}
			// one that was interrupted while it measured has something to tell
			i, err := inspect(ctx, env, args[0], access, limits, l)
			if i == nil {
				return err
			}
			if asJSON {
				return errors.Join(terminal.PrintJSON(env.stdout, i), err)
			}
			i.print(env.stdout)
			return err
		}),
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
	Unread    []fault      `json:"unread"`
	Originals *originals   `json:"originals,omitempty"` // of a store only
	// Fractions are of a store only.
	Fractions []fractionRow `json:"fractions,omitempty"`
	MSSIM     *mssim.Survey `json:"mssim,omitempty"` // if asked for
	byKind    map[formatRow]*formatRow
}

// formatRow counts the samples of one format and mode.
type formatRow struct {
	Format  string `json:"format"`
	Mode    string `json:"mode"`
	Samples int    `json:"samples"`
	Bytes   int64  `json:"bytes"`
}

// fault is a sample that cannot be read, or not as a picture, and why.
type fault struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// inspect looks at every sample, and measures some where there is a likeness to
// fill. Interrupted in that, it returns both what it has and an error.
func inspect(ctx context.Context, env *environ, name string, access remote.Access, limits transcode.Limits, like *mssim.Survey) (*information, error) {
	s, err := openSource(ctx, env, mountd.SourceOptions{Path: name, Remote: access, Limits: limits})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	l, err := s.List(ctx, unlisted(env))
	if err != nil {
		return nil, err
	}
	if nothing := noPictures(l, s.Path); nothing != "" {
		fmt.Fprintf(env.stderr, "pipefs: note: %s\n", nothing)
	}
	i := &information{Path: s.Path, Samples: len(l.Samples), Others: l.Others, Dirs: l.Dirs,
		Faults: []fault{}, Unread: []fault{}, MSSIM: like, byKind: map[formatRow]*formatRow{}}
	if s.Store != nil {
		stats := s.Store.Stats()
		i.Store, i.Originals = &stats, &originals{registry: s.Registry}
		i.Fractions = fractionRows(s.Store, len(l.Samples))
	}
	bar := terminal.NewProgress(env.stderr, "looking at samples", len(l.Samples))
	var mu sync.Mutex
	err = s.LookAll(ctx, l.Samples, func(seen mountd.Sample) {
		mu.Lock()
		defer mu.Unlock()
		bar.Add(1)
		i.add(seen)
	})
	bar.Done()
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
	if i.Originals != nil {
		i.Originals.finish(i.Store, i.Bytes)
	}
	for _, list := range [][]fault{i.Faults, i.Unread} {
		slices.SortFunc(list, func(a, b fault) int { return cmp.Compare(a.Path, b.Path) })
	}
	if like != nil {
		return i, measure(ctx, env, s, like)
	}
	return i, nil
}

func (i *information) add(seen mountd.Sample) {
	i.Bytes += seen.Size
	if i.Originals != nil {
		i.Originals.add(seen)
	}
	if i.MSSIM != nil {
		i.MSSIM.Consider(seen.Path, seen.Info, seen.Fault)
	}
	if seen.Fault != "" {
		i.Faults = append(i.Faults, fault{seen.Path, seen.Fault})
		return
	}
	if seen.Unread != "" {
		i.Unread = append(i.Unread, fault{seen.Path, seen.Unread})
	}
	kind := formatRow{Format: seen.Info.Format.String(), Mode: seen.Info.Mode.String()}
	row := i.byKind[kind]
	if row == nil {
		row = &formatRow{Format: kind.Format, Mode: kind.Mode}
		i.byKind[kind] = row
	}
	row.Samples++
	row.Bytes += seen.Size
	if seen.Info.Orientation > 1 {
		i.Turned++
	}
	if seen.Info.Animated {
		i.Animated++
	}
	if seen.Info.Format == transcode.JPEG && !seen.Info.Scannable {
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
	line("samples", "%s (%s)", human.Count(i.Samples), human.Size(i.Bytes))
	line("other files", "%s", human.Count(i.Others))
	line("directories", "%s", human.Count(i.Dirs))
	if i.Store != nil {
		i.printStore(w, line)
	}
	fmt.Fprintln(w)
	t := terminal.Table(w, "format", "mode", "samples", "bytes")
	for _, row := range i.Formats {
		t.AppendRow(table.Row{row.Format, row.Mode, human.Count(row.Samples), human.Size(row.Bytes)})
	}
	terminal.Right(t, 3, 4)
	if len(i.Formats) > 0 {
		t.Render()
	}
	for _, n := range []struct {
		count int
		text  string
	}{
		{i.Turned, "with an EXIF orientation, which views do not apply unless they begin with upright"},
		{i.Animated, "with several frames, which views leave unchanged"},
		{i.Unscanned, "of JPEG that cannot be stored scan by scan, and that scan views leave unchanged"},
	} {
		if n.count > 0 {
			terminal.Note(w, "%s%s", human.Plural(n.count, "sample ", "samples "), n.text)
		}
	}
	if i.MSSIM != nil {
		printSurvey(w, i.MSSIM)
	}
	printFaults(w, i.Unread, "sample appears unchanged in every view", "samples appear unchanged in every view")
	printFaults(w, i.Faults, "sample cannot be read", "samples cannot be read")
}

func (i *information) printStore(w io.Writer, line func(name, format string, args ...any)) {
	s := i.Store
	order := string(s.Order)
	if s.Order == store.OrderShuffle {
		order += fmt.Sprintf(", seed %d", s.Seed)
	}
	line("order", "%s, %s a record", order, human.Plural(s.RecordImages, "sample", "samples"))
	line("packs", "%s, %s", human.Count(s.Packs), human.Size(s.PackBytes))
	line("records", "%s", human.Count(s.Records))
	if o := i.Originals; o.Dataset > 0 {
		line("ratio", "%.2f of the dataset's own size, %s", o.Ratio, human.Size(o.Dataset))
		if o.Rebuilt.Samples > 0 {
			line("saved", "%s, since originals of %s are rebuilt from %s", human.Size(o.Saved), human.Size(o.Rebuilt.Bytes), human.Size(o.Rebuilt.Stored))
		}
	}
	fmt.Fprintln(w)
	t := terminal.Table(w, "representation", "bytes")
	for _, key := range slices.Sorted(maps.Keys(s.Bytes)) {
		t.AppendRow(table.Row{key, human.Size(s.Bytes[key])})
	}
	terminal.Right(t, 2)
	t.Render()
	if len(i.Fractions) > 0 {
		fmt.Fprintln(w)
		printFractions(w, i.Fractions)
	}
	i.Originals.print(w)
}

// printFaults lists what is wrong with samples, of which one and many say what
// follows from it.
func printFaults(w io.Writer, faults []fault, one, many string) {
	if len(faults) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s:\n", human.Plural(len(faults), one, many))
	for n, f := range faults {
		if n == mostFaults {
			fmt.Fprintf(w, "  and %s more; --json lists all\n", human.Count(len(faults)-n))
			break
		}
		fmt.Fprintf(w, "  %s: %s\n", f.Path, f.Reason)
	}
}
