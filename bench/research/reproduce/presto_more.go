package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/strategy"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// sizesOf measures synthetic samples, unless it was done in this run.
func (e *env) sizesOf(ctx context.Context) (rows []*sizeRow, total int64, err error) {
	total = int64(e.n(128e6, 24e6))
	if e.found.sizes != nil {
		return e.found.sizes, total, nil
	}
	// Every other one of the paper's, which are 0.01 MB to 20.5 MB, each twice the one
	// before; and the last.
	sizes := []int64{10_000, 40_000, 160_000, 640_000, 2_560_000, 10_240_000, 20_480_000}
	e.say("profiling samples of %d sizes", len(sizes))
	e.found.sizes, err = sampleSizes(ctx, e.used, total, sizes, []int{1, 2}, e.n(3, 1))
	return e.found.sizes, total, err
}

// find finds synthetic samples.
func find(rows []*sizeRow, size int64, kind string, workers int) *sizeRow {
	for _, x := range rows {
		if x.size == size && x.kind == kind && x.workers == workers {
			return x
		}
	}
	return nil
}

// of is the median time for so many bytes with a cache: the samples of a size may be a
// little less than that.
func (r *sizeRow) of(total int64, cache string) float64 {
	return stats.Median(r.seconds[cache]) * float64(total) / float64(r.size*int64(r.samples))
}

// sizeTable has a column for each size.
func sizeTable(rows []*sizeRow, what string) (t table, sizes []int64) {
	t.Head = []string{what}
	for _, x := range rows {
		if len(sizes) == 0 || x.size > sizes[len(sizes)-1] {
			sizes = append(sizes, x.size)
			t.Head = append(t.Head, fmt.Sprintf("%.2f MB", float64(x.size)/1e6))
		}
	}
	return t, sizes
}

// prestoSizes is Figure 7.
func prestoSizes(ctx context.Context, e *env) (*result, error) {
	rows, total, err := e.sizesOf(ctx)
	if err != nil {
		return nil, err
	}
	t, sizes := sizeTable(rows, "seconds, nothing cached")
	r := &result{Setup: fmt.Sprintf("%s of noise for each size, two workers", megabytes(total))}
	paperRow := []string{"15 GB, over those of 20.5 MB (paper)"}
	for i := range sizes {
		switch i {
		case 0:
			paperRow = append(paperRow, "more than 11×")
		case len(sizes) - 1:
			paperRow = append(paperRow, "1×")
		default:
			paperRow = append(paperRow, "–")
		}
	}
	t.add(paperRow...)
	var smallest, largest float64
	for _, kind := range sampleTypes {
		cells := []string{"**ours**, " + kind}
		for i, s := range sizes {
			seconds := find(rows, s, kind, 2).of(total, strategy.NoCache)
			cells = append(cells, fmt.Sprintf("%.3f", seconds))
			if i == 0 {
				smallest = seconds
			}
			largest = seconds
		}
		t.add(cells...)
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("samples of %.2f MB take %.1f times as long as as many bytes in samples of %.1f MB (the paper: more than 11 times).",
		float64(sizes[0])/1e6, smallest/largest, float64(sizes[len(sizes)-1])/1e6)
	return r, nil
}

// prestoSizesCached is Figure 9.
func prestoSizesCached(ctx context.Context, e *env) (*result, error) {
	rows, total, err := e.sizesOf(ctx)
	if err != nil {
		return nil, err
	}
	t, sizes := sizeTable(rows, "seconds, float32, two workers")
	seconds := map[string][]float64{}
	for _, cache := range strategy.Caches {
		cells := []string{"**ours**, cache: " + cache}
		for _, s := range sizes {
			v := find(rows, s, "float32", 2).of(total, cache)
			seconds[cache] = append(seconds[cache], v)
			cells = append(cells, fmt.Sprintf("%.3f", v))
		}
		t.add(cells...)
	}
	shares, paperRow := []string{"**ours**, deserialising, share of the time with the system's cache"}, []string{"that share (paper)"}
	var first, last float64
	for i := range sizes {
		system, application := seconds[strategy.System][i], seconds[strategy.Application][i]
		last = (system - application) / system
		if i == 0 {
			first = last
		}
		shares = append(shares, fmt.Sprintf("%.0f %%", 100*last))
		switch mb := float64(sizes[i]) / 1e6; {
		case mb >= 5:
			paperRow = append(paperRow, "94 – 98 %")
		case mb <= 0.08:
			paperRow = append(paperRow, "14 – 18 %")
		default:
			paperRow = append(paperRow, "–")
		}
	}
	t.add(paperRow...)
	t.add(shares...)
	return &result{
		Setup: fmt.Sprintf("%s of noise for each size", megabytes(total)), Tables: []table{t},
		Notes: []string{"What an application has in memory is handed over here, and not copied: nearly nothing is left. TensorFlow still spends time on each sample."},
		Ours:  fmt.Sprintf("reading from the page cache and deserialising is %.0f %% of the time of the smallest samples that an application-level cache saves, and %.0f %% of the largest.", 100*first, 100*last),
	}, nil
}

// prestoSizesThreads is Figure 11.
func prestoSizesThreads(ctx context.Context, e *env) (*result, error) {
	rows, total, err := e.sizesOf(ctx)
	if err != nil {
		return nil, err
	}
	t, sizes := sizeTable(rows, "two workers over one")
	paperRow := []string{"8 threads over 1 (paper)"}
	for i := range sizes {
		if i == 0 {
			paperRow = append(paperRow, "about 1×")
		} else {
			paperRow = append(paperRow, "–")
		}
	}
	t.add(paperRow...)
	var first, last float64
	for _, cache := range strategy.Caches {
		cells := []string{"**ours**, cache: " + cache}
		for i, s := range sizes {
			v := stats.Paired(find(rows, s, "float32", 1).seconds[cache], find(rows, s, "float32", 2).seconds[cache])
			cells = append(cells, fmt.Sprintf("%.2f×", v.Median))
			if cache == strategy.System {
				if i == 0 {
					first = v.Median
				}
				last = v.Median
			}
		}
		t.add(cells...)
	}
	return &result{
		Setup: fmt.Sprintf("%s of noise for each size, float32", megabytes(total)), Tables: []table{t},
		Ours: fmt.Sprintf("from the page cache two workers are %.2f times as fast as one for the smallest samples, %.2f times for the largest.", first, last),
	}, nil
}

// prestoCompression is Figure 10.
func prestoCompression(ctx context.Context, e *env) (*result, error) {
	t := table{Head: []string{"", "", "space saved", "throughput", "offline time"}}
	t.add("CV, pixel-centred (paper)", "GZIP, ZLIB", "73 – 93 %", "1.6 – 2.4×", "1.1 – 6.1×")
	t.add("CV2-JPG, decoded (paper)", "GZIP, ZLIB", "41 %", "0.89×", "–")
	t.add("CV2-PNG, decoded (paper)", "GZIP, ZLIB", "83 %", "1.5×", "13.5×")
	t.add("CV2-JPG, resized (paper)", "GZIP, ZLIB", "24 %", "0.96×", "–")
	t.add("CV2-PNG, resized (paper)", "GZIP, ZLIB", "81 %", "1.3×", "1.08 – 1.1×")
	r := &result{}
	best, where := 0.0, ""
	for _, set := range []string{"CV2-JPG", "CV2-PNG"} {
		var p *strategy.Report
		var what string
		err := e.slowly(func() (err error) {
			p, what, err = e.profile(ctx, set+" compressed", set, cvPipeline, strategy.Config{Caches: []string{strategy.NoCache}, Compressions: strategy.Compressions})
			return err
		})
		if err != nil {
			return nil, err
		}
		r.on(what)
		for i := range p.Rows {
			x := &p.Rows[i]
			plain := row(p, x.Split.Name)
			if x.Compression == strategy.None || x.Compression == "" || plain == nil || x.Caches[strategy.NoCache] == nil || plain.Caches[strategy.NoCache] == nil {
				continue
			}
			faster := stats.Paired(x.Caches[strategy.NoCache].Rates, plain.Caches[strategy.NoCache].Rates)
			t.add(fmt.Sprintf("**ours**, %s, %s", set, x.Split.Name), x.Compression, fmt.Sprintf("%.0f %%", 100*(1-float64(x.Stored)/float64(plain.Stored))),
				withInterval(faster), times(x.Offline/plain.Offline))
			if faster.Median > best {
				best, where = faster.Median, fmt.Sprintf("%s, %s, %s", set, x.Split.Name, x.Compression)
			}
		}
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("the most that compression gains is %.2f times (%s).", best, where)
	return r, nil
}

// prestoThreads is Figure 12.
func prestoThreads(ctx context.Context, e *env) (*result, error) {
	p, what, err := e.profile(ctx, "CV threads", "CV", cvPipeline, strategy.Config{Caches: []string{strategy.NoCache, strategy.System}, Workers: []int{1, 2}})
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"two workers over one", "unprocessed", "concatenated", "decoded", "resized", "pixel-centred"}}
	r := &result{Setup: what}
	var all []float64
	for _, cache := range []string{strategy.NoCache, strategy.System} {
		cells := []string{"**ours**, cache: " + cache}
		for _, split := range cvSplits {
			var rates [3][]float64
			for i := range p.Rows {
				if x := &p.Rows[i]; x.Split.Name == split && x.Caches[cache] != nil && x.Workers < len(rates) {
					rates[x.Workers] = x.Caches[cache].Rates
				}
			}
			faster := stats.Paired(rates[2], rates[1])
			all = append(all, faster.Median)
			cells = append(cells, withInterval(faster))
		}
		t.add(cells...)
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("two workers are %.2f times as fast as one where all steps are left to be done, and %.2f times for the last strategy from the page cache.", all[0], all[len(all)-1])
	r.note("The paper draws these curves and tells no numbers of the CV pipelines.")
	return r, nil
}

// prestoGrey is Figure 14.
func prestoGrey(ctx context.Context, e *env) (*result, error) {
	registry := codecs.Default(transcode.Limits{})
	plain, err := strategy.Parse(registry, cvPipeline)
	if err != nil {
		return nil, err
	}
	with, err := strategy.WithGrey(registry, plain)
	if err != nil && len(with) == 0 {
		return nil, err
	}
	refused := err
	t := table{Head: []string{"samples/s (bytes stored)", "resized", "grey", "pixel-centred"}}
	t.add("grey before pixel-centred (paper)", "1,513", "4,284", "–")
	t.add("grey after pixel-centred (paper)", "–", "1,384 (463 GB)", "534 (1.4 TB)")
	r := &result{}
	var outcome []string
	for _, pipeline := range with {
		spec := pipeline.String()
		p, what, err := e.profile(ctx, "CV "+spec, "CV", spec, strategy.Config{Caches: []string{strategy.NoCache}})
		if err != nil {
			return nil, err
		}
		r.Setup = what
		cells := []string{"**ours**, `" + spec + "`"}
		for _, split := range []string{resized, "grey", centred} {
			cell := "–"
			if x := row(p, split); x != nil {
				cell = fmt.Sprintf("%.0f (%s)", x.Rate(strategy.NoCache), megabytes(x.Stored))
			}
			cells = append(cells, cell)
		}
		t.add(cells...)
		over := gain(p, "grey", strategy.NoCache, resized)
		outcome = append(outcome, fmt.Sprintf("in `%s` what is grey is stored in %.2f of the bytes of what is resized, and read %.2f times as fast", spec, storedRatio(p, "grey", resized), over.Median))
	}
	r.Tables = []table{t}
	r.Ours = strings.Join(outcome, "; ") + "."
	if refused != nil {
		r.note("Not possible here: %s.", oneLine(refused.Error()))
	}
	return r, nil
}

func storedRatio(p *strategy.Report, split, base string) float64 {
	a, b := row(p, split), row(p, base)
	if a == nil || b == nil {
		return 0
	}
	return float64(a.Stored) / float64(b.Stored)
}

// prestoShuffle is Section 4.5.
func prestoShuffle(ctx context.Context, e *env) (*result, error) {
	sizes := []int64{10_000, 80_000, 640_000}
	rows, err := shuffling(ctx, sizes, []int{1000, 2000, 4000, 8000}, 64e6, e.n(3, 1))
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"size of a sample", "seconds that shuffling adds to one", "constant", "R² of the line"}}
	t.add("all (paper)", "9.6 ms ± 0.5", "smaller the more samples", "–")
	least := 1.0
	for _, size := range sizes {
		var x, y []float64
		for _, row := range rows {
			if row.size == size {
				x, y = append(x, float64(row.samples)), append(y, row.added())
			}
		}
		each, constant, r2 := fitLine(x, y)
		t.add(fmt.Sprintf("**ours**, %.3g kB", float64(size)/1e3), fmt.Sprintf("%.2f µs", 1e6*each), fmt.Sprintf("%.2f ms", 1e3*constant), fmt.Sprintf("%.3f", r2))
		least = min(least, r2)
	}
	r := &result{Tables: []table{t}}
	r.Ours = fmt.Sprintf("a straight line over the number of samples explains at least %.0f %% of the variance of every size.", 100*least)
	return r, nil
}
