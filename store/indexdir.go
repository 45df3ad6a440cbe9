package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	x, m, err := d.openNamed(keyName(packsKey(g.Packs)))
	if err == nil && m.Entries != g.Entries {
		err = errors.Join(x.broken("", fmt.Errorf("%d entries, the generation has %d", m.Entries, g.Entries)), x.Close())
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// openNamed opens an index, and its base.
func (d indexDir) openNamed(name string) (x *index, m indexMeta, err error) {
	x = &index{name: filepath.Join(indexName, name)}
	if x.Index, err = sorted.Open(filepath.Join(d.dir, name), name); err != nil {
		return nil, m, x.broken("", err)
	}
	if err = x.Describe(&m); err == nil && m.Base != "" {
		x.base, err = sorted.Open(filepath.Join(d.dir, m.Base), m.Base)
	}
	if err != nil {
		return nil, m, errors.Join(x.broken("", err), x.Index.Close())
	}
	if m.Base == "" {
		m.Entries = x.Len()
	}
	return x, m, nil
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

// build makes the index of a generation. Of the others those are kept that readers may have open: the one that had
// most of the generation, and the base of each. The caller holds the lock.
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
	if err != nil {
		return err
	}
	is := keyName(packsKey(b.gen.Packs))
	last, base := d.before(b.gen)
	keep := []string{lockName, is, last.name, last.meta.Base, base.name}
	if sorted.Is(filepath.Join(d.dir, is)) {
		last, base = madeIndex{}, madeIndex{} // the index is damaged, or it would be used, and so may be what it was made from
	}
	if err := b.write(ctx, filepath.Join(d.dir, is), last, base); err != nil {
		return err
	}
	for _, e := range names {
		if name := e.Name(); !slices.Contains(keep, name) && !strings.HasSuffix(name, sorted.Suffix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.dir, name)))
		}
	}
	return err
}

// private makes the index of a generation for this process alone. Its files have no names once it is open.
func (d indexDir) private(ctx context.Context, b *builder) (x *index, err error) {
	dir, err := os.MkdirTemp("", "pipefs-index-")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, indexName)
	last, _ := d.before(b.gen)
	if err = b.write(ctx, name, last, madeIndex{}); err == nil {
		x = &index{name: privateName}
		x.Index, err = sorted.Open(name, keyName(packsKey(b.gen.Packs)))
	}
	return x, errors.Join(err, os.RemoveAll(dir))
}

// madeIndex is an index that was made from the first packs of a generation.
type madeIndex struct {
	name string // "": there is none
	meta indexMeta
}

// before finds the index that has most of a generation, and the whole one that has.
func (d indexDir) before(g *generation) (last, whole madeIndex) {
	names, _ := os.ReadDir(d.dir) // if there is no directory, nothing is in it
	for _, e := range names {
		x, m, err := d.openNamed(e.Name())
		if err != nil {
			continue
		}
		_ = x.Close()
		if m.Packs < 0 || m.Packs > len(g.Packs) || e.Name() != keyName(packsKey(g.Packs[:m.Packs])) {
			continue
		}
		if last.name == "" || m.Packs > last.meta.Packs {
			last = madeIndex{e.Name(), m}
		}
		if m.Base == "" && (whole.name == "" || m.Packs > whole.meta.Packs) {
			whole = madeIndex{e.Name(), m}
		}
	}
	return last, whole
}

// builder merges the segments of a generation into one index.
type builder struct {
	fs      vfs.FS // of the store
	store   string
	indexes indexDir
	gen     *generation
	count   bool // what the generation says of its entries is not known yet
	// fromPacks says that segments were damaged or not there, and their packs were read.
	fromPacks bool
}

// write writes the index of all packs: from the last index, which has the first of
// them, if there is one, and segments. What is damaged of these is not used, but footers. A
// few packs more than the base has, if there is one, are written as a delta.
func (b *builder) write(ctx context.Context, dir string, last, base madeIndex) error {
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
	if n := base.meta.Packs; base.name != "" && base.meta.Stats != nil && base.meta.NextSeq > 0 && deltaShare*segmentBytes(packs[n:]) <= segmentBytes(packs[:n]) {
		pieces := segments[n:]
		if last.meta.Base == base.name {
			pieces = append([]piece{b.made(last, true)}, segments[last.meta.Packs:]...)
		}
		if err := b.delta(ctx, dir, base, pieces); err == nil || !again(err) && !errors.Is(err, errRecount) {
			return err
		}
	}
	if last.name != "" {
		pieces := append([]piece{b.made(last, false)}, segments[last.meta.Packs:]...)
		if err := b.merge(ctx, pieces, dir); err == nil || !again(err) {
			return err
		}
	}
	err := b.merge(ctx, segments, dir)
	if again(err) {
		b.fromPacks = true
		for i := range packs {
			segments[i].open = func() (items, io.Closer, error) {
				l, err := b.fromFooter(&packs[i])
				return l.asPiece(err)
			}
		}
		err = b.merge(ctx, segments, dir)
	}
	return err
}

// made is an index as a piece; with alone, a delta without its base.
func (b *builder) made(m madeIndex, alone bool) piece {
	return piece{name: m.name, pack: -1, open: func() (items, io.Closer, error) {
		x, _, err := b.indexes.openNamed(m.name)
		if err != nil {
			return nil, nil, err
		}
		if alone {
			return (&index{Index: x.Index, name: x.name}).items, x, nil
		}
		return x.items, x, nil
	}}
}

// deltaShare is how many times as large as a delta its base has to be at least: each lookup asks both.
const deltaShare = 8

func segmentBytes(packs []SealedPack) (size int64) {
	for i := range packs {
		size += packs[i].Segment.Size
	}
	return size
}

// errRecount says that all entries have to be counted.
var errRecount = errors.New("what is counted cannot be told from the changes")

// delta writes an index of what the last packs change in a base.
func (b *builder) delta(ctx context.Context, dir string, base madeIndex, pieces []piece) error {
	x, _, err := b.indexes.openNamed(base.name)
	if err != nil {
		return err
	}
	defer x.Close()
	m := indexMeta{Packs: len(b.gen.Packs), Base: base.name, Entries: x.Len()}
	st, next := base.meta.Stats.clone(), base.meta.NextSeq
	kinds, err := x.kindsOf(&st)
	if err != nil && b.count {
		return err
	}
	w, err := sorted.Create(ctx, dir, keyName(packsKey(b.gen.Packs)), segmentBytes(b.gen.Packs[base.meta.Packs:]))
	if err != nil {
		return err
	}
	err = mergePieces(ctx, pieces, func(item []byte) error {
		now, err := decodeItem(item)
		if err != nil {
			return damaged(segmentsName, err)
		}
		old, err := x.get(now.Path)
		if err != nil {
			return err
		}
		next = max(next, now.Seq+1)
		switch gone := now.Kind == Tombstone; {
		case gone && old == nil:
			return nil
		case gone:
			m.Entries--
		case old == nil:
			m.Entries++
		}
		if b.count && !st.replace(old, &now, kinds) {
			return errRecount
		}
		return w.Add(appendKey(nil, now.Path), item)
	})
	switch {
	case err != nil:
	case b.count:
		b.gen.Entries, b.gen.NextSeq = m.Entries, max(b.gen.NextSeq, next)
		b.gen.Stats.count(&st)
	case m.Entries != b.gen.Entries:
		err = &CorruptError{Path: segmentsName, Cause: fmt.Errorf("%d entries, the generation has %d", m.Entries, b.gen.Entries)}
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Finish(m)
}

func (b *builder) fromFooter(p *SealedPack) (*list, error) {
	seal, records, err := footerOf(b.fs, b.store, p.name())
	if err == nil {
		err = p.matches(seal)
	}
	if err != nil {
		return nil, err
	}
	return temporaryList(p.ID, func(w *listWriter) error { return addEntries(w, p.name(), records) })
}

// merge writes what is found of some pieces.
func (b *builder) merge(ctx context.Context, pieces []piece, dir string) error {
	st, next, kinds := noStats(), max(b.gen.NextSeq, 1), kindCounter{at: map[string]int{}}
	w, err := sorted.Create(ctx, dir, keyName(packsKey(b.gen.Packs)), segmentBytes(b.gen.Packs))
	if err != nil {
		return err
	}
	var key []byte
	err = mergePieces(ctx, pieces, func(item []byte) error {
		live := itemKind(item) != Tombstone
		if b.count {
			s, err := decodeItem(item)
			if err != nil {
				return damaged(segmentsName, err)
			}
			next = max(next, s.Seq+1)
			if live {
				st.add(&s, &kinds)
			}
		}
		if !live {
			return nil
		}
		key = appendKey(key[:0], string(itemPath(item)))
		return w.Add(key, item)
	})
	switch {
	case err != nil:
	case b.count:
		b.gen.Entries, b.gen.NextSeq = w.Keys, next
		b.gen.Stats.count(st)
	case w.Keys != b.gen.Entries:
		err = &CorruptError{Path: segmentsName, Cause: fmt.Errorf("%d entries, the generation has %d", w.Keys, b.gen.Entries)}
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Finish(indexMeta{Packs: len(b.gen.Packs), Entries: w.Keys, Stats: &b.gen.Stats, NextSeq: b.gen.NextSeq})
}
