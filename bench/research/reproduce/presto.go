package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/pipefs/pipefs/bench/research/strategy"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// found is what experiments on PRESTO share in one run.
type found struct {
	sets     map[string]*cvSet
	profiles map[string]*strategy.Report
}

// cvSet is a data set of a CV pipeline.
type cvSet struct {
	root  string
	files []string
	what  string
}

func (e *env) cvSet(ctx context.Context, name string) (*cvSet, error) {
	if s := e.found.sets[name]; s != nil {
		return s, nil
	}
	s := &cvSet{root: filepath.Join(e.work, name)}
	var made []string
	var err error
	if name == "CV" {
		if made, err = e.photographs(ctx, e.n(200, 16)); err != nil {
			return nil, err
		}
		s.root, s.what = filepath.Dir(made[0]), e.photoSet(len(made))
		if e.pictures != "" {
			s.root = e.pictures
		}
	} else {
		format := strings.ToLower(strings.TrimPrefix(name, "CV2-"))
		n := e.n(24, 4)
		s.what = fmt.Sprintf("%d generated %s of 2000×1500 pixels", n, strings.ToUpper(format))
		e.say("making %s", s.what)
		if made, err = generate(ctx, s.root, format, 0, n, 2000, 1500); err != nil {
			return nil, err
		}
	}
	for _, name := range made {
		rel, err := filepath.Rel(s.root, name)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, filepath.ToSlash(rel))
	}
	e.found.sets[name] = s
	return s, nil
}

// profile measures the strategies of a pipeline, unless it was done in this run.
func (e *env) profile(ctx context.Context, key, set, spec string, c strategy.Config) (*strategy.Report, string, error) {
	registry := codecs.Default(transcode.Limits{})
	pipeline, err := views.ParsePipeline(registry, spec)
	if err != nil {
		return nil, "", err
	}
	s, err := e.cvSet(ctx, set)
	if err != nil {
		return nil, "", err
	}
	if r := e.found.profiles[key]; r != nil {
		return r, s.what, nil
	}
	c.Registry, c.Pipeline, c.Root, c.Files, c.Work = registry, pipeline, s.root, s.files, e.used
	c.Rounds, c.Seed = e.n(4, 2), 1
	if len(c.Workers) == 0 {
		c.Workers = []int{runtime.NumCPU()}
	}
	e.say("profiling %s of %s", spec, set)
	r, err := strategy.Run(ctx, c)
	if err != nil {
		return nil, "", err
	}
	e.found.profiles[key] = r
	return r, s.what, nil
}

// all are the strategies with the disk as it is and all caches.
func (e *env) all(ctx context.Context, set string) (*strategy.Report, string, error) {
	return e.profile(ctx, set, set, cvPipeline, strategy.Config{Caches: strategy.Caches})
}

// onHardDisk are those from a slow disk, nothing cached.
func (e *env) onHardDisk(ctx context.Context, set string) (r *strategy.Report, what string, err error) {
	err = e.slowly(func() error {
		r, what, err = e.profile(ctx, set+" slow", set, cvPipeline, strategy.Config{Caches: []string{strategy.NoCache}})
		return err
	})
	return r, what, err
}

const cvPipeline = "resize256-center"

// slowly does something with a disk that is as slow as a hard disk.
func (e *env) slowly(do func() error) error {
	if e.group == nil {
		return e.limit(1)
	}
	if err := e.group.Set(cgroup.Limits{BytesPerSecond: hardDiskBPS, ReadsPerSecond: hardDisk}); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err // the limits go with the experiment
	}
	return e.limit(0)
}

// row finds a split; nil where it was not measured.
func row(r *strategy.Report, split string) *strategy.Row {
	for i := range r.Rows {
		if x := &r.Rows[i]; x.Split.Name == split && (x.Compression == strategy.None || x.Compression == "") {
			return x
		}
	}
	return nil
}

func rateOf(r *strategy.Report, split, cache string) float64 {
	if x := row(r, split); x != nil {
		return x.Rate(cache)
	}
	return 0
}

// gain is a rate over that of another split with nothing cached, round by round.
func gain(r *strategy.Report, split, cache, base string) views.Interval {
	a, b := row(r, split), row(r, base)
	if a == nil || b == nil || a.Caches[cache] == nil || b.Caches[strategy.NoCache] == nil {
		return views.Interval{}
	}
	return views.Paired(a.Caches[cache].Rates, b.Caches[strategy.NoCache].Rates)
}

func megabytes(b int64) string { return fmt.Sprintf("%.1f MB", float64(b)/1e6) }

func withInterval(i views.Interval) string {
	if i.Median >= 100 {
		return fmt.Sprintf("%.0f× (%.0f – %.0f)", i.Median, i.Low, i.High)
	}
	return fmt.Sprintf("%.2f× (%.2f – %.2f)", i.Median, i.Low, i.High)
}

// The names of the last two splits of cvPipeline.
const (
	resized = "resize256"
	centred = "center"
)

// prestoStrategies is Table 1.
func prestoStrategies(ctx context.Context, e *env) (*result, error) {
	slow, what, err := e.onHardDisk(ctx, "CV")
	if err != nil {
		return nil, err
	}
	fast, _, err := e.all(ctx, "CV")
	if err != nil {
		return nil, err
	}
	t := table{Head: []string{"", "all at every read", "all once", "until resize, once", "resize over all at every read", "resize over all once", "storage, one over the other"}}
	t.add("samples/s, hard disks (paper)", "107", "576", "1,789", "16.7×", "3.1×", "146 GB, 1,535 GB, 494 GB")
	r := &result{Setup: what}
	for _, disk := range []struct {
		name string
		r    *strategy.Report
	}{{"slow disk", slow}, {"disk as it is", fast}} {
		rate := func(split string) string { return fmt.Sprintf("%.0f", rateOf(disk.r, split, strategy.NoCache)) }
		over := gain(disk.r, resized, strategy.NoCache, strategy.Unprocessed)
		t.add("**ours**, samples/s, "+disk.name, rate(strategy.Unprocessed), rate(centred), rate(resized), withInterval(over),
			withInterval(gain(disk.r, resized, strategy.NoCache, centred)),
			fmt.Sprintf("%s, %s, %s", stored(disk.r, strategy.Unprocessed), stored(disk.r, centred), stored(disk.r, resized)))
		if disk.r == slow {
			r.Ours = fmt.Sprintf("stored until the resize step, samples come %.1f times as fast as with all steps at every read from a slow disk", over.Median)
		} else {
			r.Ours += fmt.Sprintf(", %.1f times from a fast one.", over.Median)
		}
	}
	r.Tables = []table{t}
	return r, nil
}

func stored(r *strategy.Report, split string) string {
	if x := row(r, split); x != nil {
		return megabytes(x.Stored)
	}
	return "–"
}

var cvSets = []string{"CV", "CV2-JPG", "CV2-PNG"}

// prestoConcatenation is Table 4.
func prestoConcatenation(ctx context.Context, e *env) (*result, error) {
	t := table{Head: []string{"samples/s", "unprocessed", "concatenated", "ratio", "read, MB/s, unprocessed", "concatenated"}}
	t.add("CV (paper)", "107", "962", "9.0×", "12", "111")
	t.add("CV on SSD (paper)", "588", "944", "1.6×", "68", "108")
	t.add("CV2-JPG (paper)", "88", "288", "3.3×", "46", "110")
	t.add("CV2-PNG (paper)", "15", "21", "1.4×", "270", "390")
	r := &result{}
	var outcome []string
	add := func(name string, p *strategy.Report) {
		cells := []string{"**ours**, " + name}
		for _, split := range []string{strategy.Unprocessed, strategy.Packed} {
			cells = append(cells, fmt.Sprintf("%.0f", rateOf(p, split, strategy.NoCache)))
		}
		over := gain(p, strategy.Packed, strategy.NoCache, strategy.Unprocessed)
		cells = append(cells, withInterval(over))
		for _, split := range []string{strategy.Unprocessed, strategy.Packed} {
			cell := "–"
			if x := row(p, split); x != nil {
				cell = fmt.Sprintf("%.0f", x.Bandwidth(p.Samples)/1e6)
			}
			cells = append(cells, cell)
		}
		t.add(cells...)
		outcome = append(outcome, fmt.Sprintf("%s %.2f", name, over.Median))
	}
	for _, set := range cvSets {
		slow, what, err := e.onHardDisk(ctx, set)
		if err != nil {
			return nil, err
		}
		add(set+", slow disk", slow)
		r.on(what)
	}
	fast, _, err := e.all(ctx, "CV")
	if err != nil {
		return nil, err
	}
	add("CV, disk as it is", fast)
	r.Tables = []table{t}
	r.Ours = "concatenation gains, in times: " + strings.Join(outcome, "; ") + "."
	return r, nil
}

// prestoCaches is Table 5.
func prestoCaches(ctx context.Context, e *env) (*result, error) {
	t := table{Head: []string{"last strategy, over no cache", "system-level", "application-level", "size of a sample"}}
	t.add("CV2-JPG (paper)", "3.3×", "15.2×", "1.18 MB")
	t.add("CV2-PNG (paper)", "3.5×", "14.5×", "1.18 MB")
	r := &result{}
	for _, set := range cvSets {
		p, what, err := e.all(ctx, set)
		if err != nil {
			return nil, err
		}
		system := gain(p, centred, strategy.System, centred)
		application := gain(p, centred, strategy.Application, centred)
		size := "–"
		if x := row(p, centred); x != nil && p.Samples > 0 {
			size = fmt.Sprintf("%.2f MB", float64(x.Stored)/float64(p.Samples)/1e6)
		}
		t.add("**ours**, "+set, withInterval(system), withInterval(application), size)
		r.Ours += fmt.Sprintf("%s: %.1f and %.1f times; ", set, system.Median, application.Median)
		r.on(what)
	}
	r.Ours = strings.TrimSuffix(r.Ours, "; ") + ", by the system's and by the application's cache."
	r.Tables = []table{t}
	return r, nil
}

// paperFigure6 are the numbers of Figure 6 that the text tells, samples/s.
var paperFigure6 = map[string]map[string]string{
	"CV":      {strategy.Unprocessed: "107", strategy.Packed: "962", resized: "1789", centred: "576"},
	"CV2-JPG": {strategy.Unprocessed: "88", strategy.Packed: "288", resized: "the best"},
	"CV2-PNG": {strategy.Unprocessed: "15", strategy.Packed: "21", resized: "the best"},
}

var cvSplits = []string{strategy.Unprocessed, strategy.Packed, strategy.Decoded, resized, centred}

// prestoAll is Figure 6.
func prestoAll(ctx context.Context, e *env) (*result, error) {
	t := table{Head: []string{"samples/s", "unprocessed", "concatenated", "decoded", "resized", "pixel-centred", "the best"}}
	fig := figure{File: "presto-figure6", Title: "Strategies, from the disk", Y: "samples/s", Names: cvSplits}
	r := &result{}
	var best []string
	for _, set := range cvSets {
		p, what, err := e.all(ctx, set)
		if err != nil {
			return nil, err
		}
		theirs, ours, bytes := []string{set + " (paper)"}, []string{"**ours**, " + set}, []string{"**ours**, " + set + ", stored"}
		l := line{Name: set}
		winner, most := "", 0.0
		for _, split := range cvSplits {
			rate := rateOf(p, split, strategy.NoCache)
			if rate > most {
				winner, most = split, rate
			}
			theirs = append(theirs, orDash(paperFigure6[set][split]))
			ours, bytes, l.Y = append(ours, fmt.Sprintf("%.0f", rate)), append(bytes, stored(p, split)), append(l.Y, rate)
		}
		t.add(append(theirs, "resized")...)
		t.add(append(ours, winner)...)
		t.add(append(bytes, "")...)
		fig.Lines = append(fig.Lines, l)
		best = append(best, set+": "+winner)
		r.on(what)
	}
	r.Tables, r.Figures = []table{t}, []figure{fig}
	r.Ours = "the fastest from the disk: " + strings.Join(best, ", ") + " (the paper: resized)."
	return r, nil
}

// prestoCaching is Figure 8.
func prestoCaching(ctx context.Context, e *env) (*result, error) {
	t := table{Head: []string{"system-level cache over none", "unprocessed", "concatenated", "decoded", "resized", "pixel-centred"}}
	t.add("CV, CV2 (paper)", "about 1×, the processor is the limit", "about 1×", "–", "1.1 to 4.2×, where it fits", "1.1 to 4.2×, where it fits")
	r := &result{}
	var low, high float64
	for _, set := range cvSets {
		p, what, err := e.all(ctx, set)
		if err != nil {
			return nil, err
		}
		cells := []string{"**ours**, " + set}
		for _, split := range cvSplits {
			g := gain(p, split, strategy.System, split)
			cells = append(cells, withInterval(g))
			switch split {
			case centred:
				high = max(high, g.Median)
			case strategy.Packed:
				low = max(low, g.Median)
			}
		}
		t.add(cells...)
		r.on(what)
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("a cache gains at most %.1f times where samples are still to be decoded, and up to %.1f times for the last strategy.", low, high)
	return r, nil
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
			faster := views.Paired(x.Caches[strategy.NoCache].Rates, plain.Caches[strategy.NoCache].Rates)
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
			faster := views.Paired(rates[2], rates[1])
			all = append(all, faster.Median)
			cells = append(cells, withInterval(faster))
		}
		t.add(cells...)
	}
	r.Tables = []table{t}
	r.Ours = fmt.Sprintf("two workers are %.2f times as fast as one where all steps are left to be done, and %.2f times for the last strategy from the page cache.", all[0], all[len(all)-1])
	return r, nil
}

// prestoGrey is Figure 14.
func prestoGrey(ctx context.Context, e *env) (*result, error) {
	registry := codecs.Default(transcode.Limits{})
	plain, err := views.ParsePipeline(registry, cvPipeline)
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
