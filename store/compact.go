package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	c := &compaction{ctx: ctx, dir: dir, o: o, indexes: indexDirOf(o.FS, dir, o.IndexDir)}
	if c.gen, err = readGeneration(o.FS, dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) {
			err = fmt.Errorf("%s: no usable index; pack again first: %w", dir, err)
		}
		return CompactReport{}, err
	}
	c.index, err = c.indexes.make(ctx, &builder{fs: o.FS, store: dir, gen: c.gen})
	if err != nil {
		return CompactReport{}, err
	}
	defer c.index.close(o.Logger)
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
	retained *table  // of the packs that stay, with tombstones; nil until it is needed
	demoted  []int   // packs that stay after all
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
	err := c.index.Walk(nil, func(item []byte) error {
		s, err := decodeItem(item)
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return err
		}
		at, raw, _ := cutItem(item)
		n := overhead(raw)
		for i := range s.Representations {
			for _, p := range s.Representations[i].Parts {
				n += p.Len
			}
		}
		c.live[at.pack] += n
		return nil
	})
	if err != nil {
		return c.index.broken("", err)
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
				c.live[i] += overhead(item[leafHead:])
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
			c.demoted = append(c.demoted, i)
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
	t, err := openSegment(c.o.FS, c.dir, p.name(), p.Segment)
	if err != nil {
		return err
	}
	defer t.f.Close() // only read
	for item, err := range t.Items {
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return tableError(p.SegmentFile(), err)
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
	path := itemPath(item)
	if live, err := c.index.Find(path); err != nil || live != nil {
		return false, c.index.broken(string(path), err) // what came after it counts
	}
	if c.retained == nil {
		if err := c.retain(); err != nil {
			return false, err
		}
	}
	if found, err := c.retained.Find(path); err != nil || found != nil {
		return true, err
	}
	for _, i := range c.demoted {
		p := &c.gen.Packs[i]
		t, err := openSegment(c.o.FS, c.dir, p.name(), p.Segment)
		if err != nil {
			return false, err
		}
		found, err := t.Find(path)
		if err = errors.Join(err, t.f.Close()); err != nil || found != nil {
			return true, err
		}
	}
	return false, nil
}

// retain makes the table of the packs that stay.
func (c *compaction) retain() error {
	var pieces []piece
	for i, is := range c.rewrite {
		if p := &c.gen.Packs[i]; !is {
			pieces = append(pieces, piece{name: p.SegmentFile(), pack: i, open: func() (*table, error) {
				return openSegment(c.o.FS, c.dir, p.name(), p.Segment)
			}})
		}
	}
	t, err := c.indexes.table(func(f vfs.File) (tableSeal, error) {
		w := newTableWriter(f)
		err := mergePieces(c.ctx, pieces, c.indexes.room, w, func([]byte) (bool, error) { return true, nil })
		if err != nil {
			return tableSeal{}, err
		}
		return w.finish(packID{}, len(pieces))
	})
	c.retained = t
	return err
}

// copyAll copies what is of use of the packs that are rewritten.
func (c *compaction) copyAll() error {
	defer func() {
		if c.retained != nil {
			_ = c.retained.f.Close() // it has no name
		}
	}()
	c.out = packLog{
		fs: c.o.FS, dir: filepath.Join(c.dir, packsName), packBytes: c.o.PackBytes, syncEvery: syncEvery,
		sealed: func(s packSeal) error {
			segment, err := makeSegment(c.o.FS, c.dir, s.name())
			c.fresh = append(c.fresh, SealedPack{packSeal: s, Segment: segment})
			return err
		},
	}
	if err := c.o.FS.MkdirAll(c.out.dir); err != nil {
		return err
	}
	sealed, parts, err := listStored(c.o.FS, c.dir)
	if err != nil {
		return err
	}
	for _, n := range slices.Concat(sealed, parts) {
		c.out.next = max(c.out.next, n.age+1)
	}
	total, done := 0, 0
	for _, is := range c.rewrite {
		if is {
			total++
		}
	}
	for i, is := range c.rewrite {
		if !is {
			continue
		}
		if err := c.copyPack(i); err != nil {
			return err
		}
		c.report.Packs++
		c.report.Bytes += c.gen.Packs[i].Size
		if done++; c.o.Progress != nil {
			c.o.Progress(done, total)
		}
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.out.seal()
}

func (c *compaction) copyPack(i int) (err error) {
	p := &c.gen.Packs[i]
	f, err := c.o.FS.Open(filepath.Join(c.dir, p.File()))
	if err != nil {
		return err
	}
	defer f.Close() // only read
	if err := p.same(f); err != nil {
		return err
	}
	_, err = eachSealed(f, packRef{p.name(), uint32(i)}, func(rec scanned) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		var raws [][]byte
		err := eachEntry(rec.meta, func(raw []byte) error { raws = append(raws, raw); return nil })
		if err != nil {
			return err
		}
		var data []byte // of the record, read at once: parts of a sample lie far apart
		for k := range rec.samples {
			s := &rec.samples[k]
			use, err := c.ofUse(rec.at, raws[k], s)
			if err != nil {
				return err
			}
			if !use {
				continue
			}
			it := itemOf(s)
			if it.isLong() {
				if err := c.copyLong(f, p.name(), it); err != nil {
					return err
				}
				continue
			}
			if data == nil && rec.at.size <= compactRecord {
				data = make([]byte, rec.at.size)
				if err := readFull(f, data, rec.at.base); err != nil {
					return corruptAt(p.name(), rec.at.base, s.Path, err)
				}
			}
			from := io.ReaderAt(f)
			if data != nil {
				from = recordData{data, rec.at.base}
			}
			if err := c.copy(from, p.name(), it); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// ofUse reports whether an entry counts.
func (c *compaction) ofUse(at place, raw []byte, s *Sample) (bool, error) {
	if s.Kind == Tombstone {
		return c.hides(append(appendItem(nil, at), raw...))
	}
	item, err := c.index.Find([]byte(s.Path))
	if err != nil || item == nil {
		return false, c.index.broken(s.Path, err)
	}
	is, found, err := cutItem(item)
	return err == nil && is == at && bytes.Equal(found, raw), c.index.broken(s.Path, err)
}

const (
	// compactRecord ends a record that would take more memory, in bytes.
	compactRecord = 256 << 20
	// compactWhole is the longest sample that is read into memory, in bytes.
	compactWhole = compactRecord / 4
)

// itemOf is an entry that is about to be stored once more.
func itemOf(s *Sample) *item {
	it := &item{Sample: *s}
	it.Representations = slices.Clone(s.Representations)
	for i := range it.Representations {
		it.Representations[i].Parts = slices.Clone(it.Representations[i].Parts)
	}
	return it
}

func (it *item) isLong() bool {
	return len(it.Representations) == 1 && len(it.Representations[0].Parts) == 1 && it.size() >= compactWhole
}

// recordData is the data of a record that is in memory.
type recordData struct {
	b    []byte
	base int64
}

// ReadAt implements [io.ReaderAt].
func (r recordData) ReadAt(b []byte, off int64) (int, error) {
	if off -= r.base; off < 0 || off > int64(len(r.b)) {
		return 0, io.EOF
	}
	n := copy(b, r.b[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// copy copies an entry with its data. Its place in packed order stays.
func (c *compaction) copy(f io.ReaderAt, pack packName, it *item) error {
	it.data = make([][][]byte, len(it.Representations))
	for i, r := range it.Representations {
		it.data[i] = make([][]byte, len(r.Parts))
		for k, p := range r.Parts {
			b := make([]byte, p.Len)
			if err := readFull(f, b, p.Off); err != nil {
				return corruptAt(pack, p.Off, it.Path, err)
			}
			for n, want := range p.Sums {
				off := int64(n) * ChunkSize
				if sum(b[off:min(off+ChunkSize, p.Len)]) != want {
					return corruptAt(pack, p.Off+off, it.Path, errSum)
				}
			}
			it.data[i][k] = b
		}
	}
	b := &c.batch
	size, meta := it.size(), it.metaSize()
	if len(b.items) > 0 && (b.bytes+size > compactRecord || b.meta+meta > metaLimit) {
		if err := c.flush(); err != nil {
			return err
		}
	}
	b.items, b.bytes, b.meta = append(b.items, it), b.bytes+size, b.meta+meta
	if it.Kind == File {
		b.images++
	}
	if b.images >= max(1, c.gen.Stats.RecordImages) || len(b.items) >= maxRecordEntries {
		return c.flush()
	}
	return nil
}

// copyLong copies an entry piece by piece, into a record of its own.
func (c *compaction) copyLong(f vfs.File, pack packName, it *item) error {
	if err := c.flush(); err != nil {
		return err
	}
	if err := c.out.begin(); err != nil {
		return err
	}
	part := it.Representations[0].Parts[0]
	part.Sums = slices.Clone(part.Sums)
	_, rec, err := c.out.w.copy(it, func(w io.Writer) (Identity, error) {
		b := make([]byte, ChunkSize)
		for n, want := range part.Sums {
			if err := c.ctx.Err(); err != nil {
				return it.Source, err
			}
			off := int64(n) * ChunkSize
			b := b[:min(ChunkSize, part.Len-off)]
			err := readFull(f, b, part.Off+off)
			if err == nil && sum(b) != want {
				err = errSum
			}
			if err != nil {
				return it.Source, corruptAt(pack, part.Off+off, it.Path, err)
			}
			if _, err := w.Write(b); err != nil {
				return it.Source, err
			}
		}
		return it.Source, nil
	})
	if err != nil {
		return err
	}
	c.out.count(rec)
	return c.out.advance()
}

// flush writes the record that was gathered.
func (c *compaction) flush() error {
	items := c.batch.items
	c.batch = batch{}
	if len(items) == 0 {
		return nil
	}
	rec, err := layOut(items)
	if err == nil {
		_, err = c.out.append(rec)
	}
	if err != nil {
		return err
	}
	return c.out.advance()
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
