package tune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// calibrate chooses the samples to measure, and materializes them.
func (t *tuner) calibrate(ctx context.Context, stored float64) (err error) {
	t.Progress("looking at the samples")
	o, err := t.Open()
	if err != nil {
		return err
	}
	for _, e := range samples(ctx, o) {
		t.all, err = t.all+1, e
	}
	if err = errors.Join(err, o.Close()); err != nil {
		return err
	}
	if t.all == 0 {
		return errNothing
	}
	t.report.Samples = t.all
	if err := t.prepare(ctx, t.View, stored); err != nil {
		return err
	}
	if o, err = t.Open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	v, err := o.Registry.Parse(t.View)
	if err != nil {
		return err
	}
	for name, err := range samples(ctx, o) {
		if err != nil {
			return err
		}
		a, err := o.Stat(name, false)
		if err != nil {
			return err
		}
		f := serve.File{Path: name, Identity: a.Identity}
		both, err := o.StoredBothWays(ctx, f, v)
		if err != nil {
			return err
		}
		if both {
			t.files = append(t.files, f)
		}
	}
	if len(t.files) == 0 {
		return errNothing
	}
	t.random.Shuffle(len(t.files), func(i, j int) { t.files[i], t.files[j] = t.files[j], t.files[i] })
	if len(t.files) > t.Samples {
		t.files = t.files[:t.Samples]
	}
	for _, f := range t.files {
		h, err := o.Resolve(ctx, 0, f, v, serve.Sized)
		if err != nil {
			return err
		}
		t.materialized += h.Size()
	}
	t.report.Materialized = t.materialized / int64(len(t.files)) * int64(t.all)
	return nil
}

// prepare materializes as many samples under a spec as are measured, if there are fewer.
func (t *tuner) prepare(ctx context.Context, spec string, stored float64) error {
	share := min(1, float64(t.Samples)/float64(t.all))
	if stored >= share {
		return nil
	}
	t.Progress(fmt.Sprintf("storing %d samples as %s to measure", min(t.Samples, t.all), spec))
	return t.materialize(ctx, spec, share, 0)
}

// samples yields the samples of a store.
func samples(ctx context.Context, o Opened) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range source.Files(o.List) {
			if err == nil {
				err = ctx.Err()
			}
			if (err != nil || o.Registry.IsSample(name)) && !yield(name, err) || err != nil {
				return
			}
		}
	}
}

// originals reports whether the store can give the measured files back. A store may have
// been packed without originals.
func (t *tuner) originals(ctx context.Context) (there bool, err error) {
	o, err := t.Open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	v, err := o.Registry.Parse(transcode.Original)
	if err != nil {
		return false, err
	}
	for i, f := range t.files {
		h, err := o.Resolve(ctx, serve.Key(i), f, v, serve.Planned)
		if err != nil {
			return false, ctx.Err()
		}
		c, err := h.Open(ctx)
		if err != nil {
			return false, ctx.Err()
		}
		c.Release()
		h.Drop()
	}
	return true, nil
}

// costs measures loading and decoding apart.
func (t *tuner) costs(ctx context.Context, as string) (c mixer.Costs, err error) {
	t.Progress("measuring what loading and decoding cost, encoded as " + as)
	o, err := t.Open()
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	v, err := o.Registry.Parse(t.View)
	if err != nil {
		return c, err
	}
	w := work{Opened: o, view: v, workers: t.Workers}
	cold := func() error { return loader.Forget(t.Store) }
	var raw, encoded, decode []float64
	files := t.files
	for range t.Rounds {
		if err := cold(); err != nil {
			return c, err
		}
		seconds, fetched, err := w.load(ctx, files, mixer.Longest{})
		if err != nil {
			return c, err
		}
		raw = append(raw, seconds/float64(len(fetched)))
		if err := cold(); err != nil {
			return c, err
		}
		if seconds, fetched, err = w.load(ctx, files, mixer.Fixed(0)); err != nil {
			return c, err
		}
		encoded = append(encoded, seconds/float64(len(fetched)))
		if seconds, err = w.finish(ctx, fetched); err != nil {
			return c, err
		}
		decode = append(decode, seconds/float64(len(fetched)))
		// Later rounds need not take longer than this.
		files = files[:min(len(files), max(fewest, int(2*passSeconds/max(raw[0], encoded[0], decode[0]))))]
	}
	return mixer.Costs{LoadRaw: views.Median(raw), LoadEncoded: views.Median(encoded), Decode: views.Median(decode)}, nil
}

// work is loading and decoding without a mount.
type work struct {
	Opened
	view    transcode.Pipeline
	workers int
}

// each calls f for 0 to n-1 on all workers and returns the seconds that it took.
func (w work) each(ctx context.Context, n int, f func(i int) error) (float64, error) {
	began := time.Now()
	err := loader.Each(ctx, w.workers, n, func(_ context.Context, _, i int) error { return f(i) })
	return time.Since(began).Seconds(), err
}

// load reads what a policy chooses into memory.
func (w work) load(ctx context.Context, files []serve.File, policy mixer.Policy) (float64, []serve.Fetched, error) {
	fetched := make([]serve.Fetched, len(files))
	seconds, err := w.each(ctx, len(files), func(i int) error {
		h, err := w.Resolve(ctx, uint64(i), files[i], w.view, serve.Planned)
		if err == nil {
			fetched[i], err = h.Fetch(ctx, policy)
		}
		return err
	})
	return seconds, fetched, err
}

// finish decodes what was loaded.
func (w work) finish(ctx context.Context, fetched []serve.Fetched) (float64, error) {
	return w.each(ctx, len(fetched), func(i int) error { return fetched[i].Finish(ctx) })
}

// Apply stores what won, within MaxBytes if that is not 0, and has auto lead to it from the next
// mount on. It takes a report that has a winner.
func (c *Config) Apply(ctx context.Context, r *Report) error {
	won := r.Views[r.Winner]
	if won.Encoded != "" {
		if err := c.materialize(ctx, c.View, won.Share, c.MaxBytes); err != nil {
			return err
		}
	}
	if won.Encoded == "l3" {
		left := c.MaxBytes
		if left > 0 {
			left = max(1, left-int64(won.Share*float64(r.Materialized)))
		}
		if err := c.materialize(ctx, "l3", 1, left); err != nil {
			return err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return store.WriteAuto(c.Store, store.Auto{View: won.View, Share: won.Share, Host: host, Time: time.Now().UTC().Truncate(time.Second)})
}

// materialize stores what a pipeline makes of a share of the samples: pipefs materialize, as a
// process of its own. most bounds the bytes that the fraction may take; 0 is no bound.
func (c *Config) materialize(ctx context.Context, spec string, share float64, most int64) error {
	args := []string{"materialize", c.Store, spec, "--fraction", strconv.FormatFloat(share, 'g', -1, 64)}
	if c.Dataset != "" {
		args = append(args, "--dataset", c.Dataset)
	}
	if most > 0 && share > 0 {
		args = append(args, "--max-bytes", strconv.FormatInt(most, 10))
	}
	if err := views.Pipefs(ctx, c.Program, args...); err != nil {
		return fmt.Errorf("storing %s: %w", spec, err)
	}
	return nil
}
