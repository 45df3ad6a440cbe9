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
	files, fetched := t.files, make([]serve.Fetched, len(t.files))
	each := func(do func(i int) error) (float64, error) { // seconds a sample
		began := time.Now()
		err := loader.Each(ctx, t.Workers, len(files), func(_ context.Context, _, i int) error { return do(i) })
		return time.Since(began).Seconds() / float64(len(files)), err
	}
	load := func(policy mixer.Policy) (float64, error) {
		if err := loader.Forget(t.Store); err != nil {
			return 0, err
		}
		return each(func(i int) error {
			h, err := o.Resolve(ctx, uint64(i), files[i], v, serve.Planned)
			if err == nil {
				fetched[i], err = h.Fetch(ctx, policy)
			}
			return err
		})
	}
	var took [3][]float64
	for range t.Rounds {
		slowest := 0.0
		for i, step := range []func() (float64, error){
			func() (float64, error) { return load(mixer.Longest{}) },
			func() (float64, error) { return load(mixer.Fixed(0)) },
			func() (float64, error) { return each(func(i int) error { return fetched[i].Finish(ctx) }) },
		} {
			seconds, err := step()
			if err != nil {
				return c, err
			}
			took[i] = append(took[i], seconds)
			slowest = max(slowest, took[i][0])
		}
		// Later rounds need not take longer than this.
		files = files[:min(len(files), max(fewest, int(2*passSeconds/slowest)))]
	}
	return mixer.Costs{LoadRaw: views.Median(took[0]), LoadEncoded: views.Median(took[1]), Decode: views.Median(took[2])}, nil
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
