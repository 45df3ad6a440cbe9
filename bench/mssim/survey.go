package mssim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/transcode"
)

// Survey tells how much the scans of samples look like all of their scans together.
type Survey struct {
	Wanted     int          `json:"wanted"`
	Measurable int          `json:"measurable"`
	Measured   int          `json:"measured"`
	LeftOut    []Unmeasured `json:"left_out"`
	Mark       float64      `json:"mark"`
	Lowest     string       `json:"lowest_at_mark,omitempty"` // the first view whose mean reaches it
	Scans      []ScanRow    `json:"scans"`

	names []string // of the samples that can be measured
}

// Unmeasured counts the samples that are not measured for one reason.
type Unmeasured struct {
	Reason  string `json:"reason"`
	Samples int    `json:"samples"`
	Example string `json:"example"`
}

// ScanRow is one scan view, over all samples that were measured.
type ScanRow struct {
	View      string  `json:"view"`
	Mean      float64 `json:"mean"`
	Low       float64 `json:"lowest_5_percent"` // one sample in twenty is not above
	Reaching  float64 `json:"share_at_mark"`
	Bytes     float64 `json:"bytes_per_sample"`
	ShareRead float64 `json:"share_of_bytes"`
}

// Consider takes note of a sample that was looked at: what its header tells, or why no codec can
// read it.
func (l *Survey) Consider(path string, info transcode.Info, fault string) {
	side := min(info.Width, info.Height)
	switch {
	case fault != "":
		l.leave("cannot be read", path)
	case !info.Scannable:
		l.leave("not JPEG, or not of a kind that is stored scan by scan", path)
	case side < Least:
		l.leave(fmt.Sprintf("too small for the five levels of the measure: a side under %d pixels", Least), path)
	default:
		l.names = append(l.names, path)
	}
}

// leave counts a sample that is left out. The example that is shown is the first
// in order, and so the same at each run.
func (l *Survey) leave(reason, example string) {
	for i := range l.LeftOut {
		if out := &l.LeftOut[i]; out.Reason == reason {
			out.Samples++
			out.Example = min(out.Example, example)
			return
		}
	}
	l.LeftOut = append(l.LeftOut, Unmeasured{Reason: reason, Samples: 1, Example: example})
}

// degrees is one sample's similarity and size at each level.
type degrees struct {
	similarity []float64
	bytes      []int
}

// Measure measures the wanted number of samples, evenly spread over their names, at most. split
// gives the scans of one. begin is told how many it will be, and done is told of each, by several
// at once. If ctx ends, the survey tells of those that were measured before.
func (l *Survey) Measure(ctx context.Context, r *transcode.Registry, split func(ctx context.Context, name string) (transcode.Split, error), begin func(samples int), done func()) error {
	slices.Sort(l.names) // they came as the disk answered
	l.Measurable = len(l.names)
	names := loader.Evenly(l.names, l.Wanted)
	begin(len(names))
	found := make([]degrees, len(names))
	var mu sync.Mutex
	_ = loader.Each(ctx, 0, len(names), func(ctx context.Context, _, i int) error {
		d, err := degreesOf(ctx, r, split, names[i])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			found[i] = d
			done()
		case ctx.Err() == nil:
			l.leave("cannot be decoded", fmt.Sprintf("%s: %v", names[i], err))
			done()
		}
		return nil
	})
	l.summarize(slices.DeleteFunc(found, func(d degrees) bool { return d.bytes == nil }))
	return ctx.Err()
}

// degreesOf decodes all levels of a sample, as their views do, and compares each
// with the last.
func degreesOf(ctx context.Context, r *transcode.Registry, scans func(context.Context, string) (transcode.Split, error), name string) (degrees, error) {
	split, err := scans(ctx, name)
	if err != nil {
		return degrees{}, err
	}
	level := func(k int) []byte {
		return slices.Concat(split.Data[:split.Ends[split.Levels[k]-1]], split.Tail)
	}
	last := len(split.Levels) - 1
	d := degrees{similarity: make([]float64, last+1), bytes: make([]int, last+1)}
	whole, err := r.Decode(ctx, level(last))
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
			px, err := r.Decode(ctx, b)
			if err != nil {
				return degrees{}, err
			}
			if d.similarity[k], err = Compare(px, whole); err != nil {
				return degrees{}, err
			}
		}
	}
	return d, nil
}

// summarize makes the rows of what was measured.
func (l *Survey) summarize(found []degrees) {
	l.Measured, l.Mark, l.Scans = len(found), Safe, []ScanRow{}
	if l.LeftOut == nil {
		l.LeftOut = []Unmeasured{}
	}
	slices.SortFunc(l.LeftOut, func(a, b Unmeasured) int {
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
		row := ScanRow{View: fmt.Sprintf("scan%d", k+1)}
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
