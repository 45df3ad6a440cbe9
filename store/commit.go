package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store/vfs"
)

// describeAll makes a generation of all sealed packs of a store, but for those that the old
// one, which may be nil, says are replaced, and without what it says of their entries. With
// segments, it makes those that are missing.
func describeAll(ctx context.Context, fsys vfs.FS, dir string, f formatFile, old *generation, segments bool) (*generation, error) {
	all, _, err := listStored(fsys, dir)
	if err != nil {
		return nil, err
	}
	names := old.counting(slices.Clone(all))
	g := &generation{Packs: make([]SealedPack, len(names)), Stats: Stats{
		Dataset: f.Dataset, RecordImages: f.RecordImages, Order: f.Order, Seed: f.Seed,
	}}
	if old != nil {
		g.NextSeq = old.NextSeq
		for i := range old.Replaced {
			if slices.Contains(all, old.Replaced[i].name()) {
				g.Replaced = append(g.Replaced, old.Replaced[i])
			}
		}
	}
	for i, n := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := &g.Packs[i]
		p.Plan = n.plan
		if p.packSeal, err = sealOf(fsys, dir, n); err != nil {
			return nil, err
		}
		if !segments {
			continue
		}
		l, err := openSegment(fsys, dir, n, segmentSeal{})
		if err == nil {
			p.Segment = l.seal.segment()
			err = l.f.Close()
		} else {
			p.Segment, err = makeSegment(fsys, dir, n)
		}
		if err != nil {
			return nil, err
		}
	}
	g.describePacks()
	return g, nil
}

func sealOf(fsys vfs.FS, store string, n packName) (packSeal, error) {
	f, err := fsys.Open(filepath.Join(store, n.file()))
	if err != nil {
		return packSeal{}, err
	}
	s, err := readSeal(f, n)
	return s, errors.Join(err, f.Close())
}

// commit makes a generation of all sealed packs current: it writes the segments that are
// missing, the index in d, and the generation. The caller holds the lock.
func commit(ctx context.Context, fsys vfs.FS, dir string, d indexDir, f formatFile, log *slog.Logger) error {
	current, err := readGeneration(fsys, dir)
	if err != nil { // the packs say it
		current = nil
	}
	g, err := describeAll(ctx, fsys, dir, f, current, true)
	if err != nil {
		return err
	}
	return writeGeneration(ctx, fsys, dir, d, g, log, func() error { return nil })
}

// writeGeneration counts what the packs of a generation hold, and makes it current unless
// ready refuses. The caller holds the lock.
func writeGeneration(ctx context.Context, fsys vfs.FS, dir string, d indexDir, g *generation, log *slog.Logger, ready func() error) error {
	l, err := d.lock(ctx)
	if err != nil {
		return err
	}
	b := &builder{fs: fsys, store: dir, indexes: d, gen: g, count: true}
	if err := errors.Join(d.build(ctx, b), l.Close()); err != nil {
		return err
	}
	if b.fromPacks { // their trailers hold, and other bytes do not
		for i := range g.Packs {
			if g.Packs[i].Segment, err = makeSegment(fsys, dir, g.Packs[i].name()); err != nil {
				return err
			}
		}
	}
	dirs := map[string]bool{}
	for i := range g.Packs {
		dirs[filepath.Dir(g.Packs[i].SegmentFile())] = true
	}
	for of := range dirs {
		if err := fsys.SyncDir(filepath.Join(dir, of)); err != nil {
			return err
		}
	}
	old, err := generationNames(fsys, dir)
	if err != nil {
		return err
	}
	g.Number = 1
	if len(old) > 0 {
		n, _ := generationNumber(old[len(old)-1])
		g.Number = n + 1
	}
	if err := ready(); err != nil {
		return err
	}
	err = g.write(fsys, dir)
	if errors.Is(err, vfs.ErrConflict) {
		return errors.Join(err, fsys.Remove(filepath.Join(dir, generationsName, g.fileName())))
	}
	if err != nil {
		return err
	}
	// Who has an old generation open goes on reading it.
	if err := removeOld(fsys, dir, g, old, log); err != nil {
		log.Warn("what an old generation of the store has left could not be removed", "store", dir, "error", err)
	}
	return nil
}

// generationNames returns the files of generations, the oldest first.
func generationNames(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(filepath.Join(dir, generationsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := generationNumber(name); return !ok })
	slices.SortFunc(names, func(a, b string) int {
		n, _ := generationNumber(a)
		m, _ := generationNumber(b)
		return int(int64(n - m))
	})
	return names, err
}

// removeOld removes generations, all but the newest and those that alone know of packs, and
// segments without a pack. Who removes packs has to know who may still read them.
func removeOld(fsys vfs.FS, dir string, g *generation, old []string, log *slog.Logger) (err error) {
	for _, name := range old[:max(0, len(old)-(keepGenerations-1))] {
		if g.knowsAll(fsys, dir, name) {
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, generationsName, name)))
		} else {
			log.Debug("an old generation is kept, since it names packs that the new one does not", "store", dir, "generation", name)
		}
	}
	generations := filepath.Join(dir, generationsName)
	all, listed := fsys.List(generations)
	for _, name := range all {
		if strings.HasSuffix(name, tmpSuffix) { // a crash left it
			listed = errors.Join(listed, fsys.Remove(filepath.Join(generations, name)))
		}
	}
	there, _, noPacks := listPacks(fsys, filepath.Join(dir, packsName))
	if noPacks != nil && !errors.Is(noPacks, fs.ErrNotExist) {
		return errors.Join(err, listed, noPacks)
	}
	return errors.Join(err, listed, removeForeign(fsys, dir, there))
}

// knowsAll reports whether a generation names all packs that an older one names.
func (g *generation) knowsAll(fsys vfs.FS, dir, name string) bool {
	old := &generation{}
	if _, err := readText(fsys, filepath.Join(dir, generationsName, name), old); err != nil {
		return errors.Is(err, ErrCorrupt) // nobody can use it
	}
	known := make(map[packName]bool, len(g.Packs))
	for i := range g.Packs {
		known[g.Packs[i].name()] = true
	}
	return !slices.ContainsFunc(old.Packs, func(p SealedPack) bool { return !known[p.name()] })
}

// upToDate reports whether a generation, its segments and the index in d are of the packs that
// are there now, and segments and index whole. It removes segments that are damaged, so that they are made again.
func (g *generation) upToDate(fsys vfs.FS, dir string, d indexDir, log *slog.Logger) bool {
	sealed, _, err := listStored(fsys, dir)
	if sealed = g.counting(sealed); err != nil || len(sealed) != len(g.Packs) || g.NextSeq == 0 {
		return false
	}
	whole := true
	for i, n := range sealed {
		want := &g.Packs[i]
		if want.name() != n {
			return false
		}
		l, err := openSegment(fsys, dir, n, want.Segment)
		if err == nil {
			err = errors.Join(damaged(n.segment(), l.each(func([]byte) bool { return true })), l.f.Close())
		}
		if errors.Is(err, ErrCorrupt) {
			log.Warn("a segment is damaged and is made again from its pack", "store", dir, "segment", n.segment(), "cause", err)
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, n.segment())))
		}
		whole = whole && err == nil
	}
	if !whole {
		return false
	}
	x, err := d.openWhole(g)
	if err != nil {
		return false
	}
	_ = x.Close()
	return true
}

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
	// Ready is called when all but CURRENT is written, and may still refuse.
	Ready func() error
}

// CommitOptions says how packs are taken in.
type CommitOptions struct {
	FS       vfs.FS
	IndexDir string // see [Options.IndexDir]
	Logger   *slog.Logger
}

// ErrStale is the class of errors about a plan that was made against an earlier state of the store.
var ErrStale = errors.New("the store has changed since the plan was made")

// PlanState says whether a plan is committed. The error is of the class ErrStale where it is not, and
// cannot be any more.
func PlanState(fsys vfs.FS, dir string, plan ID, base string) (committed bool, err error) {
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
		return Stats{}, false, errors.Join(err, removeAny(o.FS, filepath.Join(dir, committedPath(c.Plan))))
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
		if err != nil {
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
	text, err := sorted.Seal(committedFile{Magic: committedMagic, Version: committedVersion, Plan: c.Plan, Base: c.Base, Packs: packs})
	if err != nil {
		return err
	}
	name := filepath.Join(dir, committedPath(c.Plan))
	if err := fsys.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return replaceFile(fsys, name, text)
}
