package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/store/vfs"
)

// PlanCommit is what the shards of a plan have made.
type PlanCommit struct {
	Plan ID
	// Base is the file name of the generation that the plan was made against; "" where nothing
	// was stored.
	Base string
	// Packs of the plan, which are there with their segments.
	Packs []SealedPack
	// NextSeq is above the sequence numbers of the plan.
	NextSeq int64
	// How it was packed; see [Stats].
	Dataset      string
	RecordImages int
	Order        Order
	Seed         uint64
	// Ready is called when all but CURRENT is written, and may still refuse; nil does not.
	Ready func() error
}

// CommitOptions says how packs are taken in.
type CommitOptions struct {
	FS       vfs.FS       // nil means vfs.OS
	IndexDir string       // see [Options.IndexDir]
	Logger   *slog.Logger // nil means slog.Default
}

// ErrStale is the class of errors about a plan that was made against an earlier state of the store.
var ErrStale = errors.New("the store has changed since the plan was made")

// PlanState says whether a plan is committed. The error is of the class ErrStale where it is not, and
// cannot be any more.
func PlanState(fsys vfs.FS, dir string, plan ID, base string) (committed bool, err error) {
	if fsys == nil {
		fsys = vfs.OS
	}
	_, committed, err = planState(fsys, dir, plan, base)
	return committed, err
}

func planState(fsys vfs.FS, dir string, plan packID, base string) (g *generation, committed bool, err error) {
	g, err = readGeneration(fsys, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if base != "" {
			return nil, false, fmt.Errorf("%s: the plan was made against generation %s, and there is none now: %w", dir, base, ErrStale)
		}
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", dir, err)
	}
	if slices.ContainsFunc(g.Packs, func(p SealedPack) bool { return p.Plan == plan }) ||
		slices.ContainsFunc(g.Replaced, func(p replacedPack) bool { return p.Plan == plan }) {
		return g, true, nil
	}
	if g.fileName() != base {
		was := "nothing was stored"
		if base != "" {
			was = "generation " + base + " was current"
		}
		return g, false, fmt.Errorf("%s: when the plan was made %s, and now %s is: %w", dir, was, g.fileName(), ErrStale)
	}
	return g, false, nil
}

// CommitPlan makes the packs of a plan count: it merges their segments with what is stored, and
// makes a new generation current. Packs are not read. It returns false where the plan was committed
// already. What is committed is described by Stats.
//
// ErrLocked says that another process writes, ErrStale that the store is not as it was when the
// plan was made, and [vfs.ErrConflict] that another machine was first: then it is to be called again,
// with what is there now. After each of these the store is as it was, and after any other error
// it can be called again.
func CommitPlan(ctx context.Context, dir string, c PlanCommit, o CommitOptions) (_ Stats, done bool, err error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &packer{dir: dir, o: PackOptions{
		FS: o.FS, IndexDir: o.IndexDir, Logger: o.Logger,
		RecordImages: c.RecordImages, Order: c.Order, Seed: c.Seed, DatasetPath: c.Dataset,
	}}
	lock, err := p.lock()
	if err != nil {
		return Stats{}, false, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	g, committed, err := planState(o.FS, dir, c.Plan, c.Base)
	switch {
	case errors.Is(err, ErrStale):
		// Another plan was committed while this one was.
		if _, there := readCommitted(o.FS, dir, c.Plan); !errors.Is(there, fs.ErrNotExist) {
			err = errors.Join(err, o.FS.Remove(filepath.Join(dir, committedPath(c.Plan))))
		}
		return Stats{}, false, err
	case err != nil:
		return Stats{}, false, err
	case committed:
		_, err := readCommitted(o.FS, dir, c.Plan)
		if errors.Is(err, ErrCorrupt) {
			err = errors.Join(o.FS.Remove(filepath.Join(dir, committedPath(c.Plan))), fs.ErrNotExist)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = writeCommitted(o.FS, dir, c)
		}
		return g.Stats.clone(), false, err
	}
	if len(c.Packs) == 0 {
		return Stats{}, false, errors.New("the plan has no packs")
	}
	next := &generation{NextSeq: c.NextSeq, Stats: Stats{
		Dataset: p.format.Dataset, RecordImages: p.format.RecordImages, Order: p.format.Order, Seed: p.format.Seed,
	}}
	if g != nil {
		next.NextSeq, next.Packs, next.Replaced = max(next.NextSeq, g.NextSeq), slices.Clone(g.Packs), g.Replaced
	}
	next.Packs = append(next.Packs, c.Packs...)
	next.describePacks()
	err = writeGeneration(ctx, o.FS, dir, p.indexes(), next, o.Logger, func() error {
		var err error
		if p.fresh {
			err = p.writeFormat()
		}
		if err == nil {
			err = writeCommitted(o.FS, dir, c)
		}
		if err != nil || c.Ready == nil {
			return err
		}
		if err := c.Ready(); err != nil {
			return errors.Join(err, o.FS.Remove(filepath.Join(dir, committedPath(c.Plan))))
		}
		return nil
	})
	if err == nil && !p.fresh {
		err = p.writeFormat()
	}
	return next.Stats.clone(), err == nil, err
}

// writeCommitted says in the store which packs of a plan count. Two commits of a plan write the
// same.
func writeCommitted(fsys vfs.FS, dir string, c PlanCommit) error {
	packs := slices.SortedFunc(slices.Values(c.Packs), func(a, b SealedPack) int { return a.name().compare(b.name()) })
	text, err := encodeText(committedFile{Magic: committedMagic, Version: committedVersion, Plan: c.Plan, Base: c.Base, Packs: packs})
	if err != nil {
		return err
	}
	name := filepath.Join(dir, committedPath(c.Plan))
	if err := fsys.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return replaceFile(fsys, name, text)
}
