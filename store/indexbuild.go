package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pipefs/pipefs/store/vfs"
)

// builder makes a table of the entries of packs, and its SEAL. It takes memory for
// the footer of one pack and sortBytes of entries, whatever the number of entries.
type builder struct {
	fs    vfs.FS // of the packs
	packs string // their directory
	sort  entrySort
	kinds kindCounter
	seal  sealFile
}

// buildIndex makes a generation in dir, which must not exist, out of all sealed
// packs of a store, and makes it durable. It returns the checksum of its SEAL.
func buildIndex(ctx context.Context, fsys vfs.FS, store, dir string, f formatFile) (_ uint32, err error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return 0, err
	}
	packs := filepath.Join(store, packsName)
	numbers, _, err := listPacks(fsys, packs)
	if err != nil {
		return 0, err
	}
	out, err := fsys.Create(filepath.Join(dir, tableName))
	if err != nil {
		return 0, err
	}
	seal, err := buildTable(ctx, fsys, packs, numbers, f, fsys, dir, out)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return 0, fmt.Errorf("build the index in %s: %w", dir, err)
	}
	text, sum, err := encodeText(seal)
	if err != nil {
		return 0, err
	}
	return sum, replaceFile(fsys, filepath.Join(dir, sealName), text)
}

// buildTable writes the table of some packs to out. A file without a name, for
// sorting, is made in temp.
func buildTable(ctx context.Context, fsys vfs.FS, packs string, numbers []uint32, f formatFile, outFS vfs.FS, temp string, out vfs.File) (sealFile, error) {
	b := &builder{fs: fsys, packs: packs, sort: entrySort{fs: outFS, dir: temp, limit: sortBytes}, kinds: kindCounter{at: map[string]int{}}}
	defer b.sort.close()
	b.seal = sealFile{Version: indexVersion, Stats: Stats{
		Dataset: f.Dataset, RecordImages: f.RecordImages, Order: f.Order, Seed: f.Seed,
		Bytes: map[string]int64{}, WithoutOriginal: []Alike{},
	}}
	for _, n := range numbers {
		if err := ctx.Err(); err != nil {
			return sealFile{}, err
		}
		if err := b.collect(n); err != nil {
			return sealFile{}, err
		}
	}
	w := newTableWriter(out)
	err := b.sort.each(func(item []byte) error {
		at, raw, err := cutItem(item)
		if err != nil {
			return err
		}
		s, err := decodeEntry(raw, at)
		if err != nil || s.Kind == Tombstone {
			return corruptAt(at.pack, at.base, s.Path, err)
		}
		b.count(&s)
		if b.seal.Entries%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return w.add(item)
	})
	if err == nil {
		b.seal.Table, err = w.finish()
	}
	return b.seal, err
}

// collect reads the footer of a pack.
func (b *builder) collect(n uint32) error {
	f, err := b.fs.Open(filepath.Join(b.packs, packName(n)))
	if err != nil {
		return err
	}
	defer f.Close() // only read
	seal, records, err := readFooter(f, n)
	if err != nil {
		return err
	}
	b.seal.Packs = append(b.seal.Packs, seal)
	b.seal.Stats.Packs++
	b.seal.Stats.Records += seal.Records
	b.seal.Stats.PackBytes += seal.Size
	for _, r := range records {
		err := eachEntry(r.meta, func(raw []byte) error {
			d := decoder{b: raw}
			if decodeHead(&d); d.err != nil {
				return d.err
			}
			return b.sort.add(r.at, raw)
		})
		if err != nil {
			return corruptAt(n, r.metaOff, "", err)
		}
	}
	return nil
}

// count adds an entry to the statistics.
func (b *builder) count(s *Sample) {
	b.seal.Entries++
	st := &b.seal.Stats
	if s.Kind == Dir {
		st.Dirs++
		return
	}
	st.Samples++
	if s.Fault != "" {
		st.Faults++
	}
	b.kinds.count(st, s)
	for i := range s.Representations {
		st.Bytes[s.Representations[i].Key] += s.Representations[i].Size(0)
	}
}
