package packing

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/shard"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
)

// HoldsStore reports whether there is a store at a place, or a plan of one.
func HoldsStore(ctx context.Context, place blob.Objects) (bool, error) {
	for page, err := range place.List(ctx, "", false) {
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(page, func(i blob.Info) bool { return i.Name == "FORMAT" || i.Dir && i.Name == shard.Dir }) {
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
			if w.Plan == (store.ID{}) || w.Committed || w.Name != shard.PlanName(w.Plan) {
				continue
			}
			// Who commits the plan writes COMMITTED, and looks for the plan after that.
			if _, err := place.Stat(ctx, shard.CommittedName(w.Plan)); err == nil {
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
