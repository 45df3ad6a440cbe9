package strategy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
)

// runner is a run of Run.
type runner struct {
	Config
	*task
	dir    string
	random *rand.Rand
	report *Report
	check  visit // sees all results; for tests
}

// Run measures all strategies of a pipeline. When it is stopped it returns the error, and
// a report of what was measured. What it stored is removed.
func Run(ctx context.Context, c Config) (*Report, error) { return run(ctx, c, nil) }

func run(ctx context.Context, c Config, check visit) (report *Report, err error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	r := &runner{Config: c, random: rand.New(rand.NewPCG(c.Seed, 3)), check: check}
	if r.dir, err = os.MkdirTemp(c.Work, "pipefs-strategy-"); err != nil {
		return nil, fmt.Errorf("a directory to work in: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(r.dir); e != nil {
			err = errors.Join(err, fmt.Errorf("removing what was stored: %w", e))
		}
	}()
	c.Progress("looking at the samples")
	if err := writeBack(c.Root); err != nil {
		return nil, err
	}
	if r.task, err = survey(ctx, &r.Config); err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	if err = r.storeAll(ctx); err == nil {
		err = r.measureAll(ctx)
	}
	r.report.Interrupted = err != nil && ctx.Err() != nil
	// Strategies that were not measured are left out.
	r.report.Rows = slices.DeleteFunc(r.report.Rows, func(row Row) bool { return len(row.Caches) == 0 })
	r.report.Score(r.Weights)
	return r.report, err
}

// open lists the strategies.
func (r *runner) open() error {
	memory, err := loader.Memory()
	if err != nil {
		return err
	}
	r.report = &Report{
		Pipeline: r.Pipeline.String(), Samples: len(r.samples), Dataset: r.Dataset, Faulty: r.faulty, Memory: memory,
		Weights: r.Weights, Winner: -1, Base: -1,
	}
	if r.report.Dataset <= 0 {
		r.report.Dataset = len(r.samples)
	}
	for _, s := range r.samples {
		r.report.Bytes += s.bytes
		r.report.Results += s.result
		switch s.applied(r.steps) {
		case r.steps:
		case 0:
			r.report.Unchanged++
		default:
			r.report.Partly++
		}
	}
	for dir, what := range map[string]string{r.dir: "the directory to work in", r.Root: "the dataset"} {
		if inMemory(dir) {
			r.report.Notes = append(r.report.Notes, fmt.Sprintf("%s lies in memory: nothing that is read from it comes from a disk", what))
		}
	}
	slices.Sort(r.report.Notes)
	var need int64
	for i, split := range r.splits {
		compressions := r.Compressions
		if !split.Stored {
			compressions = []string{None} // there is nothing to compress
		}
		for _, compression := range compressions {
			s := &stored{task: r.task, split: i, compression: compression}
			need += s.room(slices.Max(r.Workers))
			for _, workers := range r.Workers {
				r.report.Rows = append(r.report.Rows, Row{
					Split: split, Compression: compression, Workers: workers, Caches: map[string]*Epochs{}, stored: s,
				})
			}
		}
	}
	return checkRoom(r.dir, need)
}

// storeAll runs the offline part of all strategies.
func (r *runner) storeAll(ctx context.Context) error {
	for n, i := range r.random.Perm(len(r.report.Rows)) {
		s := r.report.Rows[i].stored
		if s.bytes > 0 {
			continue // by a row with other workers
		}
		r.Progress(fmt.Sprintf("storing %s, compression %s", s.at().Name, s.compression))
		if err := loader.Drop(r.files); err != nil {
			return err
		}
		if err := s.store(ctx, filepath.Join(r.dir, fmt.Sprint(n)), slices.Max(r.Workers)); err != nil {
			return err
		}
	}
	for i := range r.report.Rows {
		row := &r.report.Rows[i]
		row.Stored, row.Offline, row.OfflineCPU = row.stored.bytes, row.stored.offline.seconds, row.stored.offline.cpu
		row.Fits = r.report.Whole(row.Stored) < r.report.Memory/2
	}
	return nil
}

// measureAll runs the online part of all strategies, in rounds.
func (r *runner) measureAll(ctx context.Context) error {
	rounds := func(done int) int {
		r.report.Rounds = done
		return r.Rounds
	}
	return views.Compare(ctx, r.random, len(r.report.Rows), rounds, func(round, i int) error {
		row := &r.report.Rows[i]
		r.Progress(fmt.Sprintf("reading %s, compression %s, %d workers, round %d of %d",
			row.Split.Name, row.Compression, row.Workers, round+1, r.Rounds))
		return r.turn(ctx, row)
	})
}

// turn measures a strategy once.
func (r *runner) turn(ctx context.Context, row *Row) error {
	s := row.stored
	if err := s.forget(); err != nil {
		return err
	}
	for _, cache := range []string{NoCache, System} {
		// An epoch has to fill the page cache.
		if !slices.Contains(r.Caches, cache) && (cache != NoCache || !slices.Contains(r.Caches, System)) {
			continue
		}
		c, err := s.epoch(ctx, r.check, s.fromDisk(row.Workers, r.random))
		if err != nil {
			return err
		}
		if slices.Contains(r.Caches, cache) {
			row.epochs(cache).add(c, len(r.samples))
		}
	}
	if slices.Contains(r.Caches, Application) {
		return r.application(ctx, row)
	}
	return nil
}

// application measures an epoch over what was kept in memory.
func (r *runner) application(ctx context.Context, row *Row) error {
	s, e := row.stored, row.epochs(Application)
	memory, err := loader.Memory()
	if err != nil {
		return err
	}
	// A quarter is left for the results, and for other processes.
	if need, most := s.payloads(), memory-memory/4; need > most {
		e.Error = fmt.Sprintf("does not fit in memory: %.1f MB, where %.1f MB can be had", float64(need)/1e6, float64(most)/1e6)
		return nil
	}
	walk, err := s.load(ctx, row.Workers, r.random)
	if err != nil {
		return err
	}
	c, err := s.epoch(ctx, r.check, walk)
	if err != nil {
		return err
	}
	e.add(c, len(r.samples))
	return nil
}

// epochs are those with a cache.
func (r *Row) epochs(cache string) *Epochs {
	if r.Caches[cache] == nil {
		r.Caches[cache] = &Epochs{}
	}
	return r.Caches[cache]
}
