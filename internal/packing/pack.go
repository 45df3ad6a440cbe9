package packing

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Config says what is packed. Zero values are what the store has, or the defaults.
type Config struct {
	Target
	Dataset      string // path without links, or URL
	RecordImages int
	Order        string // path or shuffle
	Seed         uint64 // of shuffle
	Workers      int    // 0 is one a core
	Originals    string // rebuild, keep or drop
	Scans        []int  // at which JPEG files can be cut
	Represent    string // name of the step whose result stands for files without parts; "" is none
	L3           *l3.Options
	NoFollow     bool
	Limits       transcode.Limits
	// Stored is told how many files the store has before, 0 if there is none; nil is not.
	Stored func(files int64)
}

// Report tells what was packed.
type Report struct {
	store.Report
	Sent remote.Sent // to a URL
}

// Pack puts a dataset into the store. warn is called for what is left out, and progress now and
// then. What was packed before an error is kept.
func (c *Config) Pack(ctx context.Context, w *Writer, d source.Dataset, progress func(store.Progress), warn func(path string, err error)) (Report, error) {
	var has codecs.Options
	files := int64(0)
	// Where it cannot be opened it is a new one, or the packing will say what is wrong.
	if s, err := store.Open(c.Store, store.Options{Logger: c.Log, FS: w.base, IndexDir: c.IndexDir()}); err == nil {
		st := s.Stats()
		has, files = codecs.OptionsOf(st.Bytes), st.Samples
		s.Close()
	}
	if c.Stored != nil {
		c.Stored(files)
	}
	what := c.what(d, codecs.New(c.Limits, c.codecs(has)))
	report, err := store.Pack(ctx, c.Store, what, what, store.PackOptions{
		FS:           w.FS,
		IndexDir:     c.IndexDir(),
		RecordImages: c.RecordImages,
		Order:        store.Order(c.Order),
		Seed:         c.Seed,
		Workers:      c.Workers,
		DatasetPath:  c.Dataset,
		Progress:     progress,
		Warn:         warn,
		Logger:       c.Log,
	})
	sent, failed := w.Finish()
	return Report{report, sent}, cmp.Or(err, failed)
}

// what says what a store keeps of a dataset.
func (c *Config) what(d source.Dataset, r *transcode.Registry) pack.Dataset {
	what := pack.Dataset{Registry: r, Dir: d, Originals: pack.Originals(c.Originals), Log: c.Log}
	for _, k := range r.Kinds() {
		if k.Name == c.Represent {
			what.Represent = k
		}
	}
	return what
}

// codecs is how files are made: as a store has them, unless that was asked for otherwise.
func (c *Config) codecs(o codecs.Options) codecs.Options {
	if c.Scans != nil {
		o.Cuts = jpeg.CutsAt(c.Scans...)
	}
	if c.L3 != nil {
		o.L3 = *c.L3
	}
	return o
}

// HoldsStore reports whether there is a store at a place, or a plan of one.
func HoldsStore(ctx context.Context, place blob.Objects) (bool, error) {
	for page, err := range place.List(ctx, "", false) {
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(page, func(i blob.Info) bool { return i.Name == "FORMAT" || i.Dir && i.Name == Dir }) {
			return true, nil
		}
	}
	return false, nil
}

// Garbage lists the place of a store, and returns what is unused and older than a time.
func Garbage(ctx context.Context, access remote.Access, dir string, place blob.Objects, before time.Time) (waste []store.Waste, uploads []blob.Upload, err error) {
	var all []store.Listed
	for page, err := range place.List(ctx, "", true) {
		if err != nil {
			return nil, nil, err
		}
		for _, i := range page {
			all = append(all, store.Listed{Name: i.Name, Size: i.Size, Modified: i.Modified})
		}
	}
	files, done, err := mountd.OpenFiles(ctx, access, dir, remote.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer done()
	if waste, err = store.Garbage(files, dir, all, before); err != nil {
		return nil, nil, err
	}
	if b, ok := place.(*blob.Bucket); ok {
		if uploads, err = b.Uploads(ctx); err != nil {
			return nil, nil, err
		}
		uploads = slices.DeleteFunc(uploads, func(u blob.Upload) bool { return !u.Begun.Before(before) })
	}
	return waste, uploads, nil
}

// deletesAtOnce is how many objects are removed at once.
const deletesAtOnce = 16

// Delete deletes what was found, in its order. It tells of plans that stay.
func Delete(ctx context.Context, note func(format string, args ...any), place blob.Objects, waste []store.Waste, uploads []blob.Upload) error {
	stays := map[store.ID]bool{}
	for len(waste) > 0 {
		// Those of one rank have no order among them.
		n := 1
		for n < len(waste) && !waste[n-1].Before(waste[n]) {
			n++
		}
		g, of := errgroup.WithContext(ctx)
		g.SetLimit(deletesAtOnce)
		for _, w := range waste[:n] {
			if !stays[w.Plan] {
				g.Go(func() error { return place.Delete(of, w.Name) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, w := range waste[:n] {
			if w.Plan == (store.ID{}) || w.Committed || w.Name != PlanName(w.Plan) {
				continue
			}
			// Who commits the plan writes COMMITTED, and looks for the plan after that.
			if _, err := place.Stat(ctx, CommittedName(w.Plan)); err == nil {
				stays[w.Plan] = true
				note("the plan %s is being committed; what belongs to it stays", w.Name)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		waste = waste[n:]
	}
	for _, u := range uploads {
		if err := place.(*blob.Bucket).GiveUp(ctx, u); err != nil {
			return err
		}
	}
	return ctx.Err()
}
