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

// CompactOptions says how a store is compacted. The zero value is a good choice.
type CompactOptions struct {
	// Dead is the share of a pack's bytes, above 0 and up to 1, from which on it is rewritten;
	// 0 means half.
	Dead float64
	// PackBytes is the size at which a pack is sealed; 0 means 256 MiB.
	PackBytes int64
	FS        vfs.FS       // nil means vfs.OS
	IndexDir  string       // see [Options.IndexDir]
	Logger    *slog.Logger // nil means slog.Default
	// Progress is called after every pack that was rewritten, with their number and how many
	// are to be; may be nil.
	Progress func(done, of int)
}

// CompactReport is what a compaction did.
type CompactReport struct {
	Packs    int   // that were rewritten
	Bytes    int64 // of these
	NewPacks int
	NewBytes int64
}

// Compact copies what is of use of packs of which much is dead, replaced by later entries or
// marked as removed, into new packs, and makes a generation without the old ones current. It
// removes nothing: who has an earlier generation open goes on reading it. The store holds
// the same entries as before.
//
// ErrLocked and [vfs.ErrConflict] say that another process or machine writes. After any
// error the store is as it was, but for packs that no generation names.
func Compact(ctx context.Context, dir string, o CompactOptions) (_ CompactReport, err error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Dead = positive(o.Dead, 0.5)
	o.PackBytes = positive(o.PackBytes, defaultBytes)
	if _, err := readFormat(o.FS, dir); err != nil {
		return CompactReport{}, err
	}
	lock, err := lockDir(o.FS, dir)
	if err != nil {
		return CompactReport{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	c := &compaction{ctx: ctx, dir: dir, o: o, indexes: indexDirOf(dir, o.IndexDir)}
	if c.gen, err = readGeneration(o.FS, dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) {
			err = fmt.Errorf("%s: no usable index; pack again first: %w", dir, err)
		}
		return CompactReport{}, err
	}
	c.index, err = c.indexes.make(ctx, &builder{fs: o.FS, store: dir, indexes: c.indexes, gen: c.gen})
	if err != nil {
		return CompactReport{}, err
	}
	defer c.index.Close()
	if err := c.removeUnfinished(); err != nil {
		return CompactReport{}, err
	}
	err = c.run()
	return c.report, err
}

// compaction is one run of Compact.
type compaction struct {
	ctx     context.Context
	dir     string
	o       CompactOptions
	gen     *generation
	indexes indexDir
	index   *index
	report  CompactReport

	live    []int64 // bytes of use, by pack
	rewrite []bool  // by pack
	// hides has the paths of tombstones in packs that are rewritten: whether they hide an entry of a pack that stays.
	hides map[string]bool
	out   packLog
	batch batch
	fresh []SealedPack
}

func (c *compaction) run() error {
	if err := c.choose(); err != nil || !slices.Contains(c.rewrite, true) {
		return err
	}
	err := c.copyAll()
	if err == nil {
		return c.commit()
	}
	return errors.Join(err, c.takeBack())
}

// removeUnfinished removes the packs that a compaction left which was killed: no generation names them,
// and all that they hold are copies, with the sequence numbers that the entries had. What pack left has
// numbers of its own, and stays for pack.
func (c *compaction) removeUnfinished() error {
	sealed, parts, err := listPacks(c.o.FS, filepath.Join(c.dir, packsName))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // all packs are of plans
			return nil
		}
		return err
	}
	for _, n := range slices.Concat(sealed, parts) {
		if n.id != (packID{}) && n.age <= c.gen.newestAge() {
			continue // of this generation, or of one before
		}
		copies, err := c.copies(n)
		if err != nil {
			return err
		}
		if !copies {
			continue
		}
		for _, name := range []string{n.file(), n.segment()} {
			if err := removeAny(c.o.FS, filepath.Join(c.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copies reports whether a pack holds nothing but copies of entries that were there before, as far as
// it can be read.
func (c *compaction) copies(n packName) (bool, error) {
	f, err := c.o.FS.Open(filepath.Join(c.dir, n.file()))
	if err != nil {
		return false, err
	}
	defer f.Close() // only read
	copies := true
	look := func(rec scanned) error {
		for i := range rec.samples {
			copies = copies && rec.samples[i].Seq < c.gen.NextSeq
		}
		return c.ctx.Err()
	}
	if n.id != (packID{}) {
		_, err := eachSealed(f, byAge(n), look)
		if errors.Is(err, ErrCorrupt) {
			return false, nil
		}
		return copies, err
	}
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	for rec, err := range scan(f, byAge(n), size, false) {
		if isIOError(err) || errors.Is(err, ErrVersion) {
			return false, err
		}
		if err != nil {
			break // where the run was killed
		}
		if err := look(rec); err != nil {
			return false, err
		}
	}
	return copies, nil
}

// takeBack removes the new packs.
func (c *compaction) takeBack() (err error) {
	if c.out.w != nil {
		err = c.out.w.discard()
	}
	for i := range c.fresh {
		for _, name := range []string{c.fresh[i].File(), c.fresh[i].SegmentFile()} {
			err = errors.Join(err, removeAny(c.o.FS, filepath.Join(c.dir, name)))
		}
	}
	return err
}

// overhead is what an entry takes beside its data: it is in its record and in the footer.
func overhead(raw []byte) int64 { return 2*int64(len(raw)) + frameSize }

// choose finds the packs that are to be rewritten.
func (c *compaction) choose() error {
	c.live, c.rewrite = make([]int64, len(c.gen.Packs)), make([]bool, len(c.gen.Packs))
	for item, err := range c.index.items {
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return err
		}
		s, err := decodeItem(item)
		if err != nil {
			return c.index.broken("", err)
		}
		at, raw, _ := cutItem(item)
		c.live[at.pack] += overhead(raw) + s.size()
	}
	for i := range c.gen.Packs {
		c.rewrite[i] = c.dead(i)
	}
	if err := c.findHidden(); err != nil {
		return err
	}
	for i, is := range c.rewrite {
		if !is {
			continue
		}
		err := c.segment(i, func(item []byte) error {
			if c.hides[string(itemPath(item))] && itemKind(item) == Tombstone {
				c.live[i] += overhead(item[itemHead:])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	more := false
	for i, is := range c.rewrite {
		if is && !c.dead(i) {
			c.rewrite[i], more = false, true
		}
	}
	if more {
		return c.findHidden()
	}
	return nil
}

// findHidden finds out which tombstones of the packs that are rewritten hide an entry of a pack that stays: as
// long as they do they are of use.
func (c *compaction) findHidden() error {
	c.hides = map[string]bool{}
	each := func(rewritten bool, f func(item []byte) error) error {
		for i, is := range c.rewrite {
			if is == rewritten {
				if err := c.segment(i, f); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := each(true, func(item []byte) error {
		if itemKind(item) != Tombstone {
			return nil
		}
		path := string(itemPath(item))
		live, err := c.index.get(path)
		if live == nil && err == nil { // else what came after it counts
			c.hides[path] = false
		}
		return err
	})
	if err != nil || len(c.hides) == 0 {
		return err
	}
	return each(false, func(item []byte) error {
		if _, is := c.hides[string(itemPath(item))]; is {
			c.hides[string(itemPath(item))] = true
		}
		return nil
	})
}

func (c *compaction) dead(i int) bool {
	size := c.gen.Packs[i].Size
	return float64(size-min(size, c.live[i])) >= c.o.Dead*float64(size)
}

// segment calls f with the items of a pack.
func (c *compaction) segment(i int, f func(item []byte) error) error {
	p := &c.gen.Packs[i]
	l, err := openSegment(c.o.FS, c.dir, p.name(), p.Segment)
	if err != nil {
		return err
	}
	defer l.f.Close() // only read
	for item, err := range l.items {
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return damaged(p.SegmentFile(), err)
		}
		if err := f(item); err != nil {
			return err
		}
	}
	return nil
}

// commit makes a generation of the new packs and those that stay.
func (c *compaction) commit() error {
	g := c.gen
	next := &generation{NextSeq: g.NextSeq, Replaced: slices.Clone(g.Replaced), Stats: Stats{
		Dataset: g.Stats.Dataset, RecordImages: g.Stats.RecordImages, Order: g.Stats.Order, Seed: g.Stats.Seed,
	}}
	for i := range g.Packs {
		if p := &g.Packs[i]; c.rewrite[i] {
			next.Replaced = append(next.Replaced, replacedPack{p.ID, p.Age, p.Plan})
		} else {
			next.Packs = append(next.Packs, *p)
		}
	}
	next.Packs = append(next.Packs, c.fresh...)
	for i := range c.fresh {
		c.report.NewBytes += c.fresh[i].Size
	}
	c.report.NewPacks = len(c.fresh)
	next.describePacks()
	return writeGeneration(c.ctx, c.o.FS, c.dir, c.indexes, next, c.o.Logger, func() error {
		if next.Entries != g.Entries {
			return fmt.Errorf("%s: %d entries would be left of %d; nothing was changed", c.dir, next.Entries, g.Entries)
		}
		return nil
	})
}
