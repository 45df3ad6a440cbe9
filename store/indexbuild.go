package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/pipefs/pipefs/store/vfs"
)

// located is an entry on its way into an index: its key, and where the footer
// of its pack holds it. Values are not kept in memory but read a second time,
// in the order of keys, so that building takes some 120 bytes an entry.
type located struct {
	key    []byte
	at     place
	off    int64 // of the encoded entry, in the pack
	length uint32
	sum    uint32
	order  uint32 // of the pack's records, then of its entries: the newest wins
	dead   bool
}

// builder makes index generations from packs.
type builder struct {
	ctx   context.Context
	fs    vfs.FS // of the packs
	out   vfs.FS // of the index
	packs string // directory
	log   *slog.Logger

	files   map[uint32]vfs.File
	entries []located
	arena   []byte
	size    int64 // of keys and values, bytes
	kinds   kindCounter
	seal    sealFile
}

// buildIndex makes a generation in dir, which must not exist, out of all sealed
// packs of a store, and makes it durable. It returns the checksum of its SEAL.
func buildIndex(ctx context.Context, fsys vfs.FS, store string, out vfs.FS, dir string, f formatFile, log *slog.Logger) (uint32, error) {
	b := &builder{ctx: ctx, fs: fsys, out: out, packs: filepath.Join(store, packsName), log: log, files: map[uint32]vfs.File{}, kinds: kindCounter{at: map[string]int{}}}
	defer func() {
		for _, f := range b.files {
			_ = f.Close() // only read
		}
	}()
	b.seal = sealFile{Version: formatVersion, Stats: Stats{
		Dataset: f.Dataset, RecordImages: f.RecordImages, Order: f.Order, Seed: f.Seed, Bytes: map[string]int64{},
		WithoutOriginal: []Alike{},
	}}
	if err := b.collect(); err != nil {
		return 0, err
	}
	b.dropOld()
	if err := b.write(filepath.Join(dir, dbName)); err != nil {
		return 0, fmt.Errorf("build the index in %s: %w", dir, err)
	}
	s, err := b.finish(dir)
	if err != nil {
		return 0, fmt.Errorf("build the index in %s: %w", dir, err)
	}
	return s, nil
}

// collect reads the footers of all packs.
func (b *builder) collect() error {
	numbers, _, err := listPacks(b.fs, b.packs)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		f, err := b.fs.Open(filepath.Join(b.packs, packName(n)))
		if err != nil {
			return err
		}
		b.files[n] = f
		seal, records, err := readFooter(f, n)
		if err != nil {
			return err
		}
		b.seal.Packs = append(b.seal.Packs, seal)
		b.seal.Stats.Packs++
		b.seal.Stats.Records += seal.Records
		b.seal.Stats.PackBytes += seal.Size
		order := uint32(0)
		for _, r := range records {
			err := eachEntry(r.meta, func(off int, raw []byte) error {
				order++
				return b.add(r, off, raw, order)
			})
			if err != nil {
				return corruptAt(n, r.metaOff, "", err)
			}
		}
	}
	return nil
}

func (b *builder) add(r described, off int, raw []byte, order uint32) error {
	d := decoder{b: raw}
	s := decodeHead(&d)
	if d.err != nil {
		return d.err
	}
	key := indexKey(s.Path)
	if len(b.arena)+len(key) > cap(b.arena) {
		b.arena = make([]byte, 0, 1<<20) // full ones live on in the keys
	}
	at := len(b.arena)
	b.arena = append(b.arena, key...)
	b.entries = append(b.entries, located{
		key: b.arena[at:len(b.arena):len(b.arena)], at: r.at, off: r.metaOff + int64(off),
		length: uint32(len(raw)), sum: sum(raw), order: order, dead: s.Kind == Tombstone,
	})
	return nil
}

// dropOld sorts the entries and keeps the newest of each path.
func (b *builder) dropOld() {
	slices.SortFunc(b.entries, func(x, y located) int {
		if c := bytes.Compare(x.key, y.key); c != 0 {
			return c
		}
		if c := cmp.Compare(y.at.pack, x.at.pack); c != 0 {
			return c
		}
		return cmp.Compare(y.order, x.order)
	})
	b.entries = slices.CompactFunc(b.entries, func(x, y located) bool { return bytes.Equal(x.key, y.key) })
	b.entries = slices.DeleteFunc(b.entries, func(x located) bool { return x.dead })
	for i := range b.entries {
		b.size += int64(len(b.entries[i].key)) + int64(b.entries[i].length) + valueHead
	}
	b.seal.Entries = int64(len(b.entries))
}

// write fills a new database. Badger writes through memory maps, where a full
// disk ends the process; so there has to be room before it starts.
func (b *builder) write(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := checkSpace(dir, b.size+b.size/4+64<<20); err != nil {
		return err
	}
	db, err := badger.Open(badgerOptions(dir, b.log).WithNumCompactors(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if len(b.entries) == 0 {
		return nil
	}
	w := db.NewStreamWriter()
	if err := w.Prepare(); err != nil {
		return err
	}
	if err := b.stream(w); err != nil {
		w.Cancel()
		return err
	}
	return w.Flush()
}

// stream feeds the entries, in the order of their keys, in batches.
func (b *builder) stream(w *badger.StreamWriter) error {
	const batch = 4 << 20
	buf := z.NewBuffer(batch+2<<20, "pipefs index")
	defer func() { _ = buf.Release() }()
	var raw, value []byte
	for i := range b.entries {
		e := &b.entries[i]
		raw = slices.Grow(raw[:0], int(e.length))[:e.length]
		err := readFull(b.files[e.at.pack], raw, e.off)
		if err == nil && sum(raw) != e.sum {
			err = errSum
		}
		if err != nil {
			return corruptAt(e.at.pack, e.off, "", err)
		}
		if err := b.count(raw, e.at); err != nil {
			return corruptAt(e.at.pack, e.off, "", err)
		}
		value = appendValue(value[:0], e.at, raw)
		badger.KVToBuffer(&pb.KV{Key: e.key, Value: value, Version: 1}, buf)
		if buf.LenNoPadding() >= batch || i == len(b.entries)-1 {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			if err := w.Write(buf); err != nil {
				return err
			}
			buf.Reset()
		}
	}
	return nil
}

// count adds an entry to the statistics.
func (b *builder) count(raw []byte, at place) error {
	s, err := decodeEntry(raw, at)
	if err != nil {
		return err
	}
	st := &b.seal.Stats
	if s.Kind == Dir {
		st.Dirs++
		return nil
	}
	st.Samples++
	if s.Fault != "" {
		st.Faults++
	}
	b.kinds.count(st, &s)
	for i := range s.Representations {
		st.Bytes[s.Representations[i].Key] += s.Representations[i].Size(0)
	}
	return nil
}

// finish makes the database durable and describes it.
func (b *builder) finish(dir string) (uint32, error) {
	db := filepath.Join(dir, dbName)
	names, err := b.out.List(db)
	if err != nil {
		return 0, err
	}
	st, err := os.Stat(db)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		// Badger keeps some files to their owner; whoever may read packs needs them.
		if err := os.Chmod(filepath.Join(db, name), st.Mode()&0o644); err != nil {
			return 0, err
		}
		f, err := b.out.OpenWrite(filepath.Join(db, name))
		if err != nil {
			return 0, err
		}
		is, err := sumFile(f)
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, err
		}
		is.Name = name
		b.seal.Files = append(b.seal.Files, is)
	}
	if err := b.out.SyncDir(db); err != nil {
		return 0, err
	}
	text, s, err := encodeText(b.seal)
	if err != nil {
		return 0, err
	}
	return s, replaceFile(b.out, filepath.Join(dir, sealName), text)
}

// sumFile is the length and the checksum of a file.
func sumFile(f vfs.File) (indexFile, error) {
	var is indexFile
	var err error
	if is.Size, err = f.Size(); err != nil {
		return is, err
	}
	buf := make([]byte, 1<<20)
	for off := int64(0); off < is.Size; {
		b := buf[:min(int64(len(buf)), is.Size-off)]
		if err := readFull(f, b, off); err != nil {
			return is, err
		}
		is.Sum = updateSum(is.Sum, b)
		off += int64(len(b))
	}
	return is, nil
}

// checkSpace returns ENOSPC unless a file system has room for need bytes.
func checkSpace(dir string, need int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return nil // then the write will tell
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return fmt.Errorf("%s: the index needs %d MiB, %d MiB are free: %w", dir, need>>20+1, free>>20, syscall.ENOSPC)
	}
	return nil
}
