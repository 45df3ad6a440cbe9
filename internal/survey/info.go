// Package survey looks at the samples of a dataset or store, and says what there is, what views
// do to it, and which views to train from.
package survey

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// mostFaults is how many faults are listed where nobody asked for JSON.
const mostFaults = 100

// Inspect looks at every sample of a source. Those that may be measured are noted in like, unless
// that is nil.
func Inspect(ctx context.Context, s *mountd.Source, like *mssim.Survey, unlisted func(error), stderr io.Writer) (*Information, error) {
	l, err := s.List(ctx, unlisted)
	if err != nil {
		return nil, err
	}
	if nothing := NoPictures(l, s.Path); nothing != "" {
		fmt.Fprintf(stderr, "pipefs: note: %s\n", nothing)
	}
	i := &Information{Path: s.Path, Samples: len(l.Samples), Others: l.Others, Dirs: l.Dirs,
		Faults: []fault{}, Unread: []fault{}, MSSIM: like, byKind: map[formatRow]*formatRow{}}
	if s.Store != nil {
		stats := s.Store.Stats()
		i.Store, i.Originals = &stats, &originals{registry: s.Registry}
		i.Fractions = FractionsOf(s.Store, len(l.Samples))
	}
	bar := human.NewProgress(stderr, "looking at samples", len(l.Samples))
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
	return i, nil
}

// Information is what is known of a source.
type Information struct {
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

func (i *Information) add(seen mountd.Sample) {
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

// Print prints it as tables.
func (i *Information) Print(w io.Writer) {
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
	t := human.Table(w, "format", "mode", "samples", "bytes")
	for _, row := range i.Formats {
		t.AppendRow(table.Row{row.Format, row.Mode, human.Count(row.Samples), human.Size(row.Bytes)})
	}
	human.Right(t, 3, 4)
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
			human.Note(w, "%s%s", human.Plural(n.count, "sample ", "samples "), n.text)
		}
	}
	if i.MSSIM != nil {
		printSurvey(w, i.MSSIM)
	}
	printFaults(w, i.Unread, "sample appears unchanged in every view", "samples appear unchanged in every view")
	printFaults(w, i.Faults, "sample cannot be read", "samples cannot be read")
}

func (i *Information) printStore(w io.Writer, line func(name, format string, args ...any)) {
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
	t := human.Table(w, "representation", "bytes")
	for _, key := range slices.Sorted(maps.Keys(s.Bytes)) {
		t.AppendRow(table.Row{key, human.Size(s.Bytes[key])})
	}
	human.Right(t, 2)
	t.Render()
	if len(i.Fractions) > 0 {
		fmt.Fprintln(w)
		PrintFractions(w, i.Fractions)
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

// fractionRow is a fraction as it is listed.
type fractionRow struct {
	View    string  `json:"view"`
	Wanted  float64 `json:"fraction"` // that was asked for, 0 to 1
	Results int64   `json:"results"`
	OfAll   float64 `json:"of_all_samples"` // 0 to 1
	Bytes   int64   `json:"bytes"`
}

// FractionsOf are those of a store with so many samples.
func FractionsOf(s *store.Store, samples int) []fractionRow {
	rows := []fractionRow{}
	for _, f := range s.Fractions() {
		row := fractionRow{View: f.Spec(), Wanted: f.Share(), Results: f.Count(), Bytes: f.Bytes()}
		if samples > 0 {
			row.OfAll = float64(row.Results) / float64(samples)
		}
		rows = append(rows, row)
	}
	return rows
}

// PrintFractions prints the materialized views of a store.
func PrintFractions(w io.Writer, rows []fractionRow) {
	t := human.Table(w, "kept view", "fraction", "samples", "of all", "bytes")
	for _, r := range rows {
		t.AppendRow(table.Row{r.View, human.Share(r.Wanted), human.Count(r.Results), human.Share(r.OfAll), human.Size(r.Bytes)})
	}
	human.Right(t, 2, 3, 4, 5)
	t.Render()
}

func printSurvey(w io.Writer, l *mssim.Survey) {
	fmt.Fprintf(w, "\nMS-SSIM against all scans, measured on %d of %s that can be:\n", l.Measured, human.Plural(l.Measurable, "sample", "samples"))
	if l.Measured > 0 {
		t := human.Table(w, "view", "mean", "lowest 5 %", fmt.Sprintf("≥ %.2f", l.Mark), "bytes a sample", "of all bytes")
		for _, row := range l.Scans {
			t.AppendRow(table.Row{row.View, fmt.Sprintf("%.4f", row.Mean), fmt.Sprintf("%.4f", row.Low),
				// 100 % is for all of them alone
				fmt.Sprintf("%.0f %%", math.Floor(100*row.Reaching+1e-9)), human.Size(int64(row.Bytes)), human.Percent(row.ShareRead)})
		}
		human.Right(t, 2, 3, 4, 5, 6)
		t.Render()
		for _, row := range l.Scans {
			if row.View == l.Lowest {
				fmt.Fprintln(w, human.Wrap(fmt.Sprintf("%s is the lowest scan at or above %.2f: MNT/%s reads %s of the bytes", row.View, l.Mark, row.View, human.Percent(row.ShareRead)), 0))
			}
		}
		human.Note(w, "%.2f is the PCR paper's mark for scans that train as well as all of them; your model may want another, and pipefs fidelity MNT K tries one. One sample in twenty is at or below the lowest 5 %%", l.Mark)
	}
	for _, out := range l.LeftOut {
		human.Note(w, "%s not measured, %s (%s)", human.Plural(out.Samples, "sample", "samples"), out.Reason, out.Example)
	}
}
