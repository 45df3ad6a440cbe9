package store

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/store/vfs"
)

// copyAll copies what is of use of the packs that are rewritten.
func (c *compaction) copyAll() error {
	c.out = packLog{
		fs: c.o.FS, dir: filepath.Join(c.dir, packsName), packBytes: c.o.PackBytes, syncs: true,
		sealed: func(s packSeal) error {
			segment, err := makeSegment(c.o.FS, c.dir, s.name())
			c.fresh = append(c.fresh, SealedPack{packSeal: s, Segment: segment})
			return err
		},
	}
	c.batch = batch{
		out: &c.out, most: max(1, c.gen.Stats.RecordImages), limit: compactRecord,
		wrote: func([]*item) error { return c.out.advance() },
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
	if err := c.batch.flush(); err != nil {
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
		var data []byte // of the record, read at once: parts of a sample lie far apart
		for k := range rec.samples {
			s := &rec.samples[k]
			use, err := c.ofUse(rec.at, s)
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
func (c *compaction) ofUse(at place, s *Sample) (bool, error) {
	if s.Kind == Tombstone {
		return c.hides[s.Path], nil
	}
	counts := false
	err := c.index.item(s.Path, func(item []byte) error {
		if item == nil {
			return nil
		}
		is, _, err := cutItem(item)
		counts = is == at
		return err
	})
	return counts, err
}

const (
	// compactRecord ends a record that would take more memory, in bytes.
	compactRecord = 256 << 20
	// compactWhole is the longest sample that is read into memory, in bytes.
	compactWhole = 8 << 20
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
	return bytes.NewReader(r.b).ReadAt(b, off-r.base)
}

// copy copies an entry with its data. Its place in packed order stays.
func (c *compaction) copy(f io.ReaderAt, pack packName, it *item) error {
	it.data = make([][][]byte, len(it.Representations))
	for i, r := range it.Representations {
		it.data[i] = make([][]byte, len(r.Parts))
		for k, p := range r.Parts {
			b := make([]byte, 0, p.Len)
			err := eachChunk(f, pack, p, it.Path, func(chunk []byte) error {
				b = append(b, chunk...)
				return nil
			})
			if err != nil {
				return err
			}
			it.data[i][k] = b
		}
	}
	return c.batch.add(it)
}

// copyLong copies an entry piece by piece, into a record of its own.
func (c *compaction) copyLong(f vfs.File, pack packName, it *item) error {
	if err := c.batch.flush(); err != nil {
		return err
	}
	if err := c.out.begin(); err != nil {
		return err
	}
	part := it.Representations[0].Parts[0]
	part.Sums = slices.Clone(part.Sums)
	_, _, err := c.out.w.copy(it, func(w io.Writer) (Identity, error) {
		return it.Source, eachChunk(f, pack, part, it.Path, func(b []byte) error {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			_, err := w.Write(b)
			return err
		})
	})
	if err != nil {
		return err
	}
	return c.out.advance()
}
