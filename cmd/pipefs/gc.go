package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/shard"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// gcConfig says what may be removed.
type gcConfig struct {
	remote    remote.Access
	store     string
	olderThan time.Duration
	remove    bool
}

func gcCommand(env *environ) *cli.Command {
	c := &gcConfig{olderThan: 7 * 24 * time.Hour}
	return &cli.Command{
		Name: "gc", ArgsUsage: "STORE", Category: stores, Usage: "list or delete the unused objects of a store",
		Description: "Unused objects are packs that no recent generation of the store refers to, leftovers of interrupted runs, plans that were not committed with everything that their shards have packed, and unfinished uploads to a bucket. Objects that are younger than --older-than always stay.\n" +
			"A mount that is older than that, and was not refreshed since, may need what is deleted.",
		UsageText: `pipefs gc /data/in.store      # list the objects
pipefs gc --older-than 30d --delete s3://bucket/in.store`,
		Flags: slices.Concat([]cli.Flag{
			opt("older-than", "AGE", "7d", intoAge(&c.olderThan), "keep whatever is younger than this, such as 12h or 7d"),
			&cli.BoolFlag{Name: "delete", Destination: &c.remove, Usage: "delete the objects (default: list them)"},
		}, remoteFlags(&c.remote)),
		Action: takes(1, 1, func(ctx context.Context, args []string) error {
			var err error
			if c.store, err = remote.Place(args[0]); err != nil {
				return err
			}
			return runGC(ctx, env, c)
		}),
	}
}

func runGC(ctx context.Context, env *environ, c *gcConfig) error {
	place, err := objectsOf(ctx, c.remote, c.store)
	if err != nil {
		return err
	}
	if is, err := holdsStore(ctx, place); err != nil || !is {
		if err == nil {
			err = exit.Errorf(exit.System, "%s is no store; pipefs pack makes one", c.store)
		}
		return bucketError(err)
	}
	if c.remove && !remote.Is(c.store) {
		lock, err := vfs.OS.Lock(filepath.Join(c.store, "lock"))
		if errors.Is(err, vfs.ErrLocked) {
			return exit.Errorf(exit.System, "another pipefs writes to %s; nothing was removed. Wait for it to end, and run the same command again", c.store)
		}
		if err != nil {
			return exit.With(exit.System, err)
		}
		defer lock.Close()
	}
	before := time.Now().Add(-c.olderThan)
	waste, uploads, err := c.find(ctx, place, before)
	if err != nil {
		return bucketError(err)
	}
	var bytes int64
	for _, w := range waste {
		fmt.Fprintf(env.stdout, "%s  %s  %s\n", w.Name, human.Size(w.Size), w.Why)
		bytes += w.Size
	}
	for _, u := range uploads {
		fmt.Fprintf(env.stdout, "%s  begun %s  an unfinished upload\n", u.Name, u.Begun.Format(time.DateOnly))
	}
	n := len(waste) + len(uploads)
	switch {
	case n == 0:
		fmt.Fprintf(env.stdout, "nothing to delete in %s\n", c.store)
	case !c.remove:
		fmt.Fprintf(env.stdout, "%s, %s: nothing was deleted (--delete deletes them)\n", human.Plural(n, "unused object", "unused objects"), human.Size(bytes))
	default:
		err := c.delete(ctx, env.stderr, place, waste, uploads)
		if errors.Is(err, context.Canceled) {
			return exit.Errorf(exit.Interrupted, "interrupted; the same command goes on")
		}
		if err != nil {
			return bucketError(err)
		}
		fmt.Fprintf(env.stdout, "deleted %s, %s\n", human.Plural(n, "unused object", "unused objects"), human.Size(bytes))
	}
	return nil
}

// holdsStore reports whether there is a store at a place, or a plan of one.
func holdsStore(ctx context.Context, place blob.Objects) (bool, error) {
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

// find lists the place, and returns what is unused.
func (c *gcConfig) find(ctx context.Context, place blob.Objects, before time.Time) (waste []store.Waste, uploads []blob.Upload, err error) {
	var all []store.Listed
	for page, err := range place.List(ctx, "", true) {
		if err != nil {
			return nil, nil, err
		}
		for _, i := range page {
			all = append(all, store.Listed{Name: i.Name, Size: i.Size, Modified: i.Modified})
		}
	}
	files, done, err := mountd.OpenFiles(ctx, c.remote, c.store, remote.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer done()
	if waste, err = store.Garbage(files, c.store, all, before); err != nil {
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

// delete removes what was found, in its order.
func (c *gcConfig) delete(ctx context.Context, stderr io.Writer, place blob.Objects, waste []store.Waste, uploads []blob.Upload) error {
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
				noter(stderr)("the plan %s is being committed; what belongs to it stays", w.Name)
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
