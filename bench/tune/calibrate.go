package tune

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// calibrate chooses the samples to measure, and materializes them.
func (t *tuner) calibrate(ctx context.Context, stored float64) (err error) {
	t.Progress("looking at the samples")
	o, err := t.Open()
	if err != nil {
		return err
	}
	t.all, err = count(ctx, o, "")
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
	if err := t.choose(ctx, o, v, ""); err != nil {
		return err
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

// count counts the samples below a directory.
func count(ctx context.Context, o Opened, dir string) (n int, err error) {
	err = walk(ctx, o, dir, func(string) error { n++; return nil })
	return n, err
}

// choose takes the samples that are materialized.
func (t *tuner) choose(ctx context.Context, o Opened, v transcode.Pipeline, dir string) error {
	return walk(ctx, o, dir, func(name string) error {
		a, err := o.Stat(name, false)
		if err != nil {
			return err
		}
		f := serve.File{Path: name, Identity: a.Identity}
		both, err := o.StoredBothWays(ctx, f, v)
		if both {
			t.files = append(t.files, f)
		}
		return err
	})
}

func walk(ctx context.Context, o Opened, dir string, visit func(name string) error) error {
	entries, err := o.List(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, e.Name)
		switch {
		case e.Dir:
			err = walk(ctx, o, name, visit)
		case o.Registry.IsSample(name):
			err = visit(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	return mixer.Costs{LoadRaw: stats.Median(raw), LoadEncoded: stats.Median(encoded), Decode: stats.Median(decode)}, nil
}
