package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/transcode"
)

// usuallyMeasured is how many samples --mssim measures unless told otherwise: it
// decodes each of them ten times.
const usuallyMeasured = 100

// likeness is what --mssim tells: how much the scans of samples look like all of
// their scans together.
type likeness struct {
	Wanted     int          `json:"wanted"`
	Measurable int          `json:"measurable"`
	Measured   int          `json:"measured"`
	LeftOut    []unmeasured `json:"left_out"`
	Mark       float64      `json:"mark"`
	Lowest     string       `json:"lowest_at_mark,omitempty"` // the first view whose mean reaches it
	Scans      []scanRow    `json:"scans"`

	names []string // of the samples that can be measured
}

// unmeasured counts the samples that are not measured for one reason.
type unmeasured struct {
	Reason  string `json:"reason"`
	Samples int    `json:"samples"`
	Example string `json:"example"`
}

// scanRow is one scan view, over all samples that were measured.
type scanRow struct {
	View      string  `json:"view"`
	Mean      float64 `json:"mean"`
	Low       float64 `json:"lowest_5_percent"` // one sample in twenty is not above
	Reaching  float64 `json:"share_at_mark"`
	Bytes     float64 `json:"bytes_per_sample"`
	ShareRead float64 `json:"share_of_bytes"`
}

// consider takes note of a sample that was looked at.
func (l *likeness) consider(seen sampleInfo) {
	side := min(seen.info.Width, seen.info.Height)
	switch {
	case seen.fault != "":
		l.leave("cannot be read", seen.path)
	case !seen.info.Scannable:
		l.leave("not JPEG, or not of a kind that is stored scan by scan", seen.path)
	case side < mssim.Least:
		l.leave(fmt.Sprintf("too small for the five levels of the measure: a side under %d pixels", mssim.Least), seen.path)
	default:
		l.names = append(l.names, seen.path)
	}
}

// leave counts a sample that is left out. The example that is shown is the first
// in order, and so the same at each run.
func (l *likeness) leave(reason, example string) {
	for i := range l.LeftOut {
		if out := &l.LeftOut[i]; out.Reason == reason {
			out.Samples++
			out.Example = min(out.Example, example)
			return
		}
	}
	l.LeftOut = append(l.LeftOut, unmeasured{Reason: reason, Samples: 1, Example: example})
}

// degrees is one sample's similarity and size at each level.
type degrees struct {
	similarity []float64
	bytes      []int
}

// measure measures the wanted number of samples, evenly spread over their names.
// When it is interrupted it tells of those that it got to.
func (l *likeness) measure(ctx context.Context, env *environ, s *input) error {
	p, err := s.registry.Parse(mountd.ScanView(maxFidelity))
	if err != nil {
		return err
	}
	kind := p.Steps()[0].Kind
	slices.Sort(l.names) // they came as the disk answered
	l.Measurable = len(l.names)
	names := loader.Evenly(l.names, l.Wanted)
	bar := newProgress(env, "measuring samples", len(names))
	found := make([]degrees, len(names))
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error {
			d, err := s.degrees(ctx, kind, name)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				found[i] = d
				bar.add(1)
			case ctx.Err() == nil:
				l.leave("cannot be decoded", fmt.Sprintf("%s: %v", name, err))
				bar.add(1)
			}
			return nil
		})
	}
	_ = work.Wait() // none of them fails
	bar.done()
	l.summarize(slices.DeleteFunc(found, func(d degrees) bool { return d.bytes == nil }))
	if ctx.Err() != nil {
		return exit.Errorf(exit.Interrupted, "interrupted after %d of %s", l.Measured, plural(len(names), "sample", "samples"))
	}
	return nil
}

// degrees decodes all levels of a sample, as their views do, and compares each
// with the last.
func (s *input) degrees(ctx context.Context, kind *transcode.Kind, name string) (degrees, error) {
	split, err := s.split(ctx, kind, name)
	if err != nil {
		return degrees{}, err
	}
	level := func(k int) []byte {
		return slices.Concat(split.Data[:split.Ends[split.Levels[k]-1]], split.Tail)
	}
	last := len(split.Levels) - 1
	d := degrees{similarity: make([]float64, last+1), bytes: make([]int, last+1)}
	whole, err := s.registry.Decode(ctx, level(last))
	if err != nil {
		return degrees{}, err
	}
	for k, parts := range split.Levels {
		b := level(k)
		d.bytes[k] = len(b)
		switch {
		case parts == split.Levels[last]:
			d.similarity[k] = 1
		case k > 0 && parts == split.Levels[k-1]: // grey has fewer scans than levels
			d.similarity[k] = d.similarity[k-1]
		default:
			if ctx.Err() != nil {
				return degrees{}, ctx.Err()
			}
			px, err := s.registry.Decode(ctx, b)
			if err != nil {
				return degrees{}, err
			}
			if d.similarity[k], err = mssim.Compare(px, whole); err != nil {
				return degrees{}, err
			}
		}
	}
	return d, nil
}

// summarize makes the rows of what was measured.
func (l *likeness) summarize(found []degrees) {
	l.Measured, l.Mark, l.Scans = len(found), mssim.Safe, []scanRow{}
	if l.LeftOut == nil {
		l.LeftOut = []unmeasured{}
	}
	slices.SortFunc(l.LeftOut, func(a, b unmeasured) int {
		return cmp.Or(b.Samples-a.Samples, cmp.Compare(a.Reason, b.Reason))
	})
	if l.Measured == 0 {
		return
	}
	full := 0.0
	for _, d := range found {
		full += float64(d.bytes[len(d.bytes)-1])
	}
	n := float64(len(found))
	for k := range found[0].similarity {
		row := scanRow{View: mountd.ScanView(k + 1)}
		all := make([]float64, len(found))
		for i, d := range found {
			all[i] = d.similarity[k]
			row.Mean += d.similarity[k]
			row.Bytes += float64(d.bytes[k])
			if all[i] >= l.Mark {
				row.Reaching++
			}
		}
		row.ShareRead = row.Bytes / full
		row.Mean, row.Bytes, row.Reaching = row.Mean/n, row.Bytes/n, row.Reaching/n
		slices.Sort(all)
		row.Low = all[(len(all)+19)/20-1]
		if l.Lowest == "" && row.Mean >= l.Mark {
			l.Lowest = row.View
		}
		l.Scans = append(l.Scans, row)
	}
}

func (l *likeness) print(w io.Writer) {
	fmt.Fprintf(w, "\nMS-SSIM against all scans, measured on %d of %s that can be:\n", l.Measured, plural(l.Measurable, "sample", "samples"))
	if l.Measured > 0 {
		t := newTable(w, "view", "mean", "lowest 5 %", fmt.Sprintf("≥ %.2f", l.Mark), "bytes a sample", "of all bytes")
		for _, row := range l.Scans {
			t.AppendRow(table.Row{row.View, fmt.Sprintf("%.4f", row.Mean), fmt.Sprintf("%.4f", row.Low),
				// 100 % is for all of them alone
				fmt.Sprintf("%.0f %%", math.Floor(100*row.Reaching+1e-9)), formatSize(int64(row.Bytes)), percent(row.ShareRead)})
		}
		right(t, 2, 3, 4, 5, 6)
		t.Render()
		for _, row := range l.Scans {
			if row.View == l.Lowest {
				fmt.Fprintln(w, wrap(fmt.Sprintf("%s is the lowest scan at or above %.2f: MNT/%s reads %s of the bytes", row.View, l.Mark, row.View, percent(row.ShareRead)), 0))
			}
		}
		note(w, "%.2f is the PCR paper's mark for scans that train as well as all of them; your model may want another, and pipefs fidelity MNT K tries one. One sample in twenty is at or below the lowest 5 %%", l.Mark)
	}
	for _, out := range l.LeftOut {
		note(w, "%s not measured, %s (%s)", plural(out.Samples, "sample", "samples"), out.Reason, out.Example)
	}
}
