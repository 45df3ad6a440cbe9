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

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store/vfs"
)

// indexDir is where the indexes of one store are kept, each in a directory that is named by the packs
// that it was made from. It is on the operating system's disk, whatever the store is on. What
// is in it can be removed at any time.
type indexDir struct{ dir string }

const (
	indexName = "index" // in the store
	// privateName is that of an index that only this process has.
	privateName = "temporary index"
)

// indexDirOf is where the index of a store is: elsewhere, or where that is "" in the store.
func indexDirOf(store, elsewhere string) indexDir {
	if elsewhere != "" {
		return indexDir{elsewhere}
	}
	return indexDir{filepath.Join(store, indexName)}
}

func keyName(key packID) string { return fmt.Sprintf("%x", key) }

// open opens the index of a generation. Its entries are checked when they are read.
func (d indexDir) open(g *generation) (*index, error) {
	key := keyName(packsKey(g.Packs))
	x := &index{name: filepath.Join(indexName, key)}
	var err error
	if x.Index, err = sorted.Open(filepath.Join(d.dir, key), key); err != nil {
		return nil, x.broken("", err)
	}
	if n := x.Len(); n != g.Entries {
		return nil, errors.Join(x.broken("", fmt.Errorf("%d entries, the generation has %d", n, g.Entries)), x.Close())
	}
	return x, nil
}

// openWhole opens the index of a generation if every byte of it holds.
func (d indexDir) openWhole(g *generation) (*index, error) {
	x, err := d.open(g)
	if err == nil {
		if err = x.each(func(*Sample) error { return nil }); err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	return x, err
}

// lockWait is how long one waits for another process that makes an index.
const lockWait = 10 * time.Minute

// lock makes sure that one process at a time makes an index here. It waits.
func (d indexDir) lock(ctx context.Context) (io.Closer, error) {
	if strings.Contains(d.dir, "://") {
		return nil, fmt.Errorf("%s: an index has to be on this machine: %w", d.dir, errors.ErrUnsupported)
	}
	if err := os.MkdirAll(d.dir, 0o777); err != nil {
		return nil, err
	}
	for since := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		l, err := vfs.OS.Lock(filepath.Join(d.dir, lockName))
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
	names, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, e := range names { // what a crash left takes space
		if strings.HasSuffix(e.Name(), sorted.Suffix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.dir, e.Name())))
		}
	}
	is, was := keyName(packsKey(b.gen.Packs)), d.base(b.gen)
	if err == nil {
		err = b.write(ctx, filepath.Join(d.dir, is), "", was)
	}
	if err != nil {
		return err
	}
	for _, e := range names {
		if name := e.Name(); name != is && name != lockName && !strings.HasSuffix(name, sorted.Suffix) && (was == nil || name != was.name) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.dir, name)))
		}
	}
	return err
}

// private makes the index of a generation for this process alone. Its files have no names once it is open.
func (d indexDir) private(ctx context.Context, b *builder, temp string) (x *index, err error) {
	err = inPrivate(temp, func(dir string) error {
		if err := b.write(ctx, dir, temp, d.base(b.gen)); err != nil {
			return err
		}
		x = &index{name: privateName}
		x.Index, err = sorted.Open(dir, keyName(packsKey(b.gen.Packs)))
		return err
	})
	return x, err
}

// inPrivate calls f with the name of an index that goes when f returns.
func inPrivate(temp string, f func(dir string) error) error {
	dir, err := os.MkdirTemp(temp, "pipefs-index-")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "index")
	return errors.Join(f(name), os.RemoveAll(dir))
}

// baseIndex is an index that was made from the first packs of a generation.
type baseIndex struct {
	piece
	packs int
}

// base finds the index that has most of a generation; nil where there is none.
func (d indexDir) base(g *generation) (best *baseIndex) {
	names, err := os.ReadDir(d.dir)
	if err != nil {
		return nil // there is no directory
	}
	for _, e := range names {
		if !e.IsDir() || strings.HasSuffix(e.Name(), sorted.Suffix) {
			continue
		}
		n, err := d.packsOf(e.Name(), g)
		if err == nil && (best == nil || n > best.packs) {
			best = &baseIndex{piece{name: e.Name(), pack: -1, open: func() (items, io.Closer, error) {
				x := &index{name: filepath.Join(indexName, e.Name())}
				if x.Index, err = sorted.Open(filepath.Join(d.dir, e.Name()), e.Name()); err != nil {
					return nil, nil, x.broken("", err)
				}
				return x.items, x.Index, nil
			}}, n}
		}
	}
	return best
}

// packsOf is how many of a generation's packs an index was made from, if these are the first.
func (d indexDir) packsOf(name string, g *generation) (int, error) {
	x, err := sorted.Open(filepath.Join(d.dir, name), name)
	if err != nil {
		return 0, err
	}
	defer x.Close()
	var m indexMeta
	err = x.Describe(&m)
	if err == nil && (m.Packs < 0 || m.Packs > len(g.Packs) || name != keyName(packsKey(g.Packs[:m.Packs]))) {
		err = errors.New("of other packs")
	}
	return m.Packs, err
}

// builder merges the segments of a generation into one index.
type builder struct {
	fs    vfs.FS // of the store
	store string
	gen   *generation
	count bool // what the generation says of its entries is not known yet
	// fromPacks says that segments were damaged or not there, and their packs were read.
	fromPacks bool
	kinds     kindCounter
}

// write writes the index of all packs: from an index that has the first of
// them, if there is one, and segments. What is damaged of these is not used, but footers.
func (b *builder) write(ctx context.Context, dir, temp string, base *baseIndex) error {
	packs := b.gen.Packs
	segments := make([]piece, len(packs))
	for i := range packs {
		p := &packs[i]
		segments[i] = piece{name: p.name().segment(), pack: i, open: func() (items, io.Closer, error) {
			l, err := openSegment(b.fs, b.store, p.name(), p.Segment)
			return l.asPiece(err)
		}}
	}
	again := func(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) }
	var err error
	if base != nil {
		err = b.merge(ctx, append([]piece{base.piece}, segments[base.packs:]...), dir, temp)
	}
	if base == nil || again(err) {
		err = b.merge(ctx, segments, dir, temp)
	}
	if again(err) {
		b.fromPacks = true
		for i := range packs {
			segments[i].open = func() (items, io.Closer, error) {
				l, err := b.fromFooter(&packs[i], temp)
				return l.asPiece(err)
			}
		}
		err = b.merge(ctx, segments, dir, temp)
	}
	return err
}

func (b *builder) fromFooter(p *SealedPack, temp string) (*list, error) {
	seal, records, err := footerOf(b.fs, b.store, p.name())
	if err == nil {
		err = p.matches(seal)
	}
	if err != nil {
		return nil, err
	}
	return temporaryList(temp, p.ID, func(w *listWriter) error { return addEntries(w, p.name(), records) })
}

// merge writes what is found of some pieces.
func (b *builder) merge(ctx context.Context, pieces []piece, dir, temp string) error {
	st := &b.gen.Stats
	if b.count {
		b.gen.Entries, b.kinds = 0, kindCounter{at: map[string]int{}}
		b.gen.NextSeq = max(b.gen.NextSeq, 1)
		st.clear()
	}
	size := int64(0)
	for i := range b.gen.Packs {
		size += b.gen.Packs[i].Segment.Size
	}
	w, err := sorted.Create(ctx, dir, keyName(packsKey(b.gen.Packs)), size)
	if err != nil {
		return err
	}
	var key []byte
	err = mergePieces(ctx, pieces, temp, func(item []byte) error {
		live := itemKind(item) != Tombstone
		if b.count {
			s, err := decodeItem(item)
			if err != nil {
				return damaged(segmentsName, err)
			}
			b.gen.NextSeq = max(b.gen.NextSeq, s.Seq+1)
			if live {
				b.gen.Entries++
				st.add(&s, &b.kinds)
			}
		}
		if !live {
			return nil
		}
		key = appendKey(key[:0], string(itemPath(item)))
		return w.Add(key, item)
	})
	if err == nil && w.Keys != b.gen.Entries {
		err = &CorruptError{Path: segmentsName, Cause: fmt.Errorf("%d entries, the generation has %d", w.Keys, b.gen.Entries)}
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Finish(indexMeta{Packs: len(b.gen.Packs)})
}
