package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pipefs/pipefs/store/vfs"
)

// indexDir is where the merged indexes of one store are kept, each named by the packs that
// it was made from. What is in it can be removed at any time.
type indexDir struct{ room }

const (
	indexName   = "index" // in the store
	tableSuffix = ".table"
	// privateName is that of an index that only this process has.
	privateName = "temporary index"
)

// indexDirOf is where the index of a store is: elsewhere, or where that is "" in the store.
func indexDirOf(fsys vfs.FS, store, elsewhere string) indexDir {
	if elsewhere != "" {
		return indexDir{room{vfs.OS, elsewhere}}
	}
	return indexDir{room{fsys, filepath.Join(store, indexName)}}
}

func tableName(key packID) string { return fmt.Sprintf("%x%s", key, tableSuffix) }

// open opens the index of a generation. Its blocks are checked when they are read.
func (d indexDir) open(g *generation) (*index, error) {
	key := packsKey(g.Packs)
	x := &index{name: filepath.Join(indexName, tableName(key))}
	f, err := d.fs.Open(filepath.Join(d.dir, tableName(key)))
	if err != nil {
		return nil, err
	}
	if x.table, err = openTable(f, key, len(g.Packs)); err != nil {
		return nil, x.broken("", err)
	}
	if n := x.seal.Entries; n != g.Entries {
		return nil, errors.Join(x.broken("", fmt.Errorf("%d entries, the generation has %d", n, g.Entries)), f.Close())
	}
	return x, nil
}

// openWhole opens the index of a generation if every byte of it holds.
func (d indexDir) openWhole(g *generation) (*index, error) {
	x, err := d.open(g)
	if err == nil {
		if err = x.each(func(*Sample) error { return nil }); err != nil {
			return nil, errors.Join(err, x.f.Close())
		}
	}
	return x, err
}

// lockWait is how long one waits for another process that makes an index.
const lockWait = 10 * time.Minute

// lock makes sure that one process at a time makes an index here. It waits.
func (d indexDir) lock(ctx context.Context) (io.Closer, error) {
	if err := d.fs.MkdirAll(d.dir); err != nil {
		return nil, err
	}
	for since := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		l, err := d.fs.Lock(filepath.Join(d.dir, lockName))
		switch {
		case !errors.Is(err, vfs.ErrLocked) || time.Since(since) > lockWait:
			return l, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

// make makes the index of a generation, unless another process did meanwhile, and opens it.
func (d indexDir) make(ctx context.Context, b *builder) (*index, error) {
	l, err := d.lock(ctx)
	if err != nil {
		return nil, err
	}
	x, err := d.openWhole(b.gen)
	if err != nil {
		if err = d.build(ctx, b); err == nil {
			x, err = d.open(b.gen)
		}
	}
	return x, errors.Join(err, l.Close())
}

// build makes the index of a generation. Of the others that one is kept that had most of it:
// readers may have it open. The caller holds the lock.
func (d indexDir) build(ctx context.Context, b *builder) error {
	is, was := tableName(packsKey(b.gen.Packs)), d.base(b.gen)
	err := writeThenName(d.fs, filepath.Join(d.dir, is), func(f vfs.File) error {
		_, err := b.write(ctx, f, d.room, was)
		return err
	})
	if err == nil {
		err = d.fs.SyncDir(d.dir)
	}
	if err != nil {
		return err
	}
	names, err := d.fs.List(d.dir)
	for _, name := range names {
		if strings.HasSuffix(strings.TrimSuffix(name, tmpSuffix), tableSuffix) && name != is && (was == nil || name != was.file) {
			err = errors.Join(err, d.fs.Remove(filepath.Join(d.dir, name)))
		}
	}
	return err
}

// private makes the index of a generation in a file without a name. The file belongs to this
// process: it is on the operating system's disk, whatever the store is on.
func (d indexDir) private(ctx context.Context, b *builder, temp string) (*index, error) {
	if temp == "" {
		temp = os.TempDir()
	}
	r := room{vfs.OS, temp}
	t, err := r.table(func(f vfs.File) (tableSeal, error) { return b.write(ctx, f, r, d.base(b.gen)) })
	if err != nil {
		return nil, fmt.Errorf("make an index in %s: %w", temp, err)
	}
	return &index{table: t, name: privateName}, nil
}

// baseTable is a table that was made from the first packs of a generation.
type baseTable struct {
	piece
	file  string
	packs int
}

// base finds the table that has most of a generation; nil where there is none.
func (d indexDir) base(g *generation) (best *baseTable) {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return nil // there is no directory
	}
	for _, name := range names {
		if !strings.HasSuffix(name, tableSuffix) {
			continue
		}
		n, err := d.packsOf(name, g)
		if err == nil && (best == nil || n > best.packs) {
			best = &baseTable{piece{name: name, pack: -1, open: func() (*table, error) {
				f, err := d.fs.Open(filepath.Join(d.dir, name))
				if err != nil {
					return nil, err
				}
				t, err := openTable(f, packsKey(g.Packs[:n]), n)
				return t, tableError(name, err)
			}}, name, n}
		}
	}
	return best
}

// packsOf is how many of a generation's packs a table was made from, if these are the first.
func (d indexDir) packsOf(name string, g *generation) (int, error) {
	f, err := d.fs.Open(filepath.Join(d.dir, name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	s, err := readTableSeal(f)
	if err == nil && (s.Packs > len(g.Packs) || s.Of != packsKey(g.Packs[:s.Packs]) || name != tableName(s.Of)) {
		err = errors.New("of other packs")
	}
	return s.Packs, err
}

// builder merges the segments of a generation into one table.
type builder struct {
	fs    vfs.FS // of the store
	store string
	gen   *generation
	count bool // what the generation says of its entries is not known yet
	// fromPacks says that segments were damaged or not there, and their packs were read.
	fromPacks bool
	kinds     kindCounter
}

// write writes the table of all packs to an empty file: from a table that has the first of
// them, if there is one, and segments. What is damaged of these is not used, but footers.
func (b *builder) write(ctx context.Context, f vfs.File, temp room, base *baseTable) (seal tableSeal, err error) {
	packs := b.gen.Packs
	segments := make([]piece, len(packs))
	for i := range packs {
		p := &packs[i]
		segments[i] = piece{name: p.name().segment(), pack: i, open: func() (*table, error) {
			return openSegment(b.fs, b.store, p.name(), p.Segment)
		}}
	}
	again := func(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) }
	if base != nil {
		seal, err = b.merge(ctx, append([]piece{base.piece}, segments[base.packs:]...), f, temp)
	}
	if base == nil || again(err) {
		seal, err = b.merge(ctx, segments, f, temp)
	}
	if again(err) {
		b.fromPacks = true
		for i := range packs {
			segments[i].open = func() (*table, error) { return b.fromFooter(&packs[i], temp) }
		}
		seal, err = b.merge(ctx, segments, f, temp)
	}
	return seal, err
}

func (b *builder) fromFooter(p *SealedPack, temp room) (*table, error) {
	seal, records, err := footerOf(b.fs, b.store, p.name())
	if err == nil {
		err = p.matches(seal)
	}
	if err != nil {
		return nil, err
	}
	return temp.table(func(f vfs.File) (tableSeal, error) { return writeSegment(f, p.name(), records) })
}

// merge writes what is found of some pieces.
func (b *builder) merge(ctx context.Context, pieces []piece, f vfs.File, temp room) (tableSeal, error) {
	if err := f.Truncate(0); err != nil {
		return tableSeal{}, err
	}
	st := &b.gen.Stats
	if b.count {
		b.gen.Entries, b.kinds = 0, kindCounter{at: map[string]int{}}
		b.gen.NextSeq = max(b.gen.NextSeq, 1)
		st.clear()
	}
	w := newTableWriter(f)
	err := mergePieces(ctx, pieces, temp, w, func(item []byte) (bool, error) {
		live := itemKind(item) != Tombstone
		if !b.count {
			return live, nil
		}
		s, err := decodeItem(item)
		if err == nil {
			b.gen.NextSeq = max(b.gen.NextSeq, s.Seq+1)
		}
		if err == nil && live {
			b.gen.Entries++
			st.add(&s, &b.kinds)
		}
		return live, tableError(segmentsName, err)
	})
	if err != nil {
		return tableSeal{}, err
	}
	if w.entries != b.gen.Entries {
		return tableSeal{}, &CorruptError{Path: segmentsName, Cause: fmt.Errorf("%d entries, the generation has %d", w.entries, b.gen.Entries)}
	}
	return w.finish(packsKey(b.gen.Packs), len(b.gen.Packs))
}
