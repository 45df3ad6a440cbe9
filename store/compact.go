package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	sorted "github.com/pipefs/pipefs/internal/index"
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
	if o.Dead <= 0 {
		o.Dead = 0.5
	}
	if o.PackBytes <= 0 {
		o.PackBytes = 256 << 20
	}
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
	defer c.forgetRetained()
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

	live     []int64 // bytes of use, by pack
	rewrite  []bool  // by pack
	retained *index  // of the packs that stay, with tombstones; nil until it is needed
	out      packLog
	batch    batch
	fresh    []SealedPack
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
		names := []string{n.file()}
		if n.id != (packID{}) {
			names = append(names, n.segment())
		}
		for _, name := range names {
			if err := c.o.FS.Remove(filepath.Join(c.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
			if gone := c.o.FS.Remove(filepath.Join(c.dir, name)); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
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
		n := overhead(raw)
		for i := range s.Representations {
			for _, p := range s.Representations[i].Parts {
				n += p.Len
			}
		}
		c.live[at.pack] += n
	}
	for i := range c.gen.Packs {
		c.rewrite[i] = c.dead(i)
	}
	// Tombstones are of use as long as a pack that stays has what they hide.
	for i, is := range c.rewrite {
		if !is {
			continue
		}
		err := c.segment(i, func(item []byte) error {
			needed, err := c.hides(item)
			if needed {
				c.live[i] += overhead(item[itemHead:])
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, is := range c.rewrite {
		if is && !c.dead(i) {
			c.rewrite[i] = false
			c.forgetRetained() // it stays, too
		}
	}
	return nil
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

// hides reports whether an item is a tombstone that hides an entry of a pack that stays.
func (c *compaction) hides(item []byte) (bool, error) {
	if itemKind(item) != Tombstone {
		return false, nil
	}
	path := string(itemPath(item))
	if live, err := c.index.get(path); err != nil || live != nil {
		return false, err // what came after it counts
	}
	if c.retained == nil {
		if err := c.retain(); err != nil {
			return false, err
		}
	}
	found, err := c.retained.Get(nil, appendKey(nil, path))
	return found != nil, c.retained.broken(path, err)
}

// retain makes the index of the paths in the packs that stay.
func (c *compaction) retain() error {
	var pieces []piece
	size := int64(0)
	for i, is := range c.rewrite {
		if p := &c.gen.Packs[i]; !is {
			size += p.Segment.Size
			pieces = append(pieces, piece{name: p.SegmentFile(), pack: i, open: func() (items, io.Closer, error) {
				l, err := openSegment(c.o.FS, c.dir, p.name(), p.Segment)
				return l.asPiece(err)
			}})
		}
	}
	return inPrivate("", func(dir string) error {
		w, err := sorted.Create(c.ctx, dir, privateName, size)
		if err != nil {
			return err
		}
		err = mergePieces(c.ctx, pieces, "", func(item []byte) error {
			return w.Add(appendKey(nil, string(itemPath(item))), nil)
		})
		if err != nil {
			return errors.Join(err, w.Abort())
		}
		if err := w.Finish(indexMeta{Packs: len(pieces)}); err != nil {
			return err
		}
		c.retained = &index{name: privateName}
		c.retained.Index, err = sorted.Open(dir, privateName)
		return err
	})
}

func (c *compaction) forgetRetained() {
	if c.retained != nil {
		_ = c.retained.Close()
		c.retained = nil
	}
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
