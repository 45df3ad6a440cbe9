package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/sstable"
	"github.com/pipefs/pipefs/store/vfs"
)

// A segment is the table of one pack: its entries in the order of a table, of each path
// the newest, tombstones included. It is a copy of what the footer says.
const (
	segmentsName  = "segments"
	segmentSuffix = ".segment"
)

// writeSegment writes the segment of a pack, whose records are given, into an empty file.
func writeSegment(f vfs.File, n packName, records []described) (tableSeal, error) {
	type entry struct {
		path, raw []byte
		at        place
		seq       int // where it comes in the pack
	}
	var entries []entry
	for _, r := range records {
		err := eachEntry(r.meta, func(raw []byte) error {
			if _, err := decodeEntry(raw, r.at); err != nil {
				return err
			}
			entries = append(entries, entry{entryPath(raw), raw, r.at, len(entries)})
			return nil
		})
		if err != nil {
			return tableSeal{}, corruptAt(n, r.metaOff, "", err)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(sstable.ComparePaths(a.path, b.path), cmp.Compare(b.seq, a.seq)) // the newest first
	})
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return string(a.path) == string(b.path) })
	w := newTableWriter(f)
	var item []byte
	for _, e := range entries {
		item = appendItem(item[:0], e.at)
		if err := w.add(append(item, e.raw...)); err != nil {
			return tableSeal{}, err
		}
	}
	return w.finish(n.id, 1)
}

// appendItem appends the head of a leaf's item. A segment has one pack, which is number 0.
func appendItem(b []byte, at place) []byte {
	b = binary.LittleEndian.AppendUint32(b, at.pack)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.base))
	return binary.LittleEndian.AppendUint64(b, uint64(at.size))
}

// footerOf reads the footer of a pack of a store.
func footerOf(fsys vfs.FS, store string, n packName) (packSeal, []described, error) {
	f, err := fsys.Open(filepath.Join(store, n.file()))
	if err != nil {
		return packSeal{}, nil, err
	}
	defer f.Close() // only read
	return readFooter(f, packRef{packName: n})
}

// makeSegment makes the segment of a pack from its footer, and gives it its name once all of
// it is there. The caller syncs the directory.
func makeSegment(fsys vfs.FS, store string, n packName) (s segmentSeal, err error) {
	_, records, err := footerOf(fsys, store, n)
	if err != nil {
		return s, err
	}
	name := filepath.Join(store, n.segment())
	if err := fsys.MkdirAll(filepath.Dir(name)); err != nil {
		return s, err
	}
	err = writeThenName(fsys, name, func(f vfs.File) error {
		seal, err := writeSegment(f, n, records)
		s = segmentSeal{seal.Size + tableTrailer, seal.sum()}
		return err
	})
	return s, err
}

// writeThenName makes a file that has its name only when it is whole and durable. The caller
// syncs the directory.
func writeThenName(fsys vfs.FS, name string, write func(vfs.File) error) error {
	tmp := name + tmpSuffix
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), fsys.Remove(tmp))
	}
	return nil
}

// openSegment opens the segment of a pack. Where want is not zero, it has to be that one.
func openSegment(fsys vfs.FS, store string, n packName, want segmentSeal) (*table, error) {
	name := n.segment()
	f, err := fsys.Open(filepath.Join(store, name))
	if err != nil {
		return nil, err
	}
	t, err := openTable(f, n.id, 1)
	if err != nil {
		return nil, tableError(name, err)
	}
	if is := t.segment(); want != (segmentSeal{}) && is != want {
		return nil, errors.Join(tableError(name, errors.New("not the one that the generation names")), t.f.Close())
	}
	return t, nil
}

func (t *table) segment() segmentSeal {
	return segmentSeal{t.seal.Size + tableTrailer, t.seal.sum()}
}

// room is a directory for temporary files.
type room struct {
	fs  vfs.FS
	dir string
}

// unnamed returns a file without a name: whatever ends the process, it is gone.
func (r room) unnamed() (vfs.File, error) {
	name := filepath.Join(r.dir, fmt.Sprintf("pipefs-index-%016x", rand.Uint64()))
	f, err := r.fs.Create(name)
	if err != nil {
		return nil, err
	}
	if err := r.fs.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// table makes a table in a file without a name.
func (r room) table(write func(vfs.File) (tableSeal, error)) (*table, error) {
	f, err := r.unnamed()
	if err != nil {
		return nil, err
	}
	seal, err := write(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return openTable(f, seal.Of, seal.Packs)
}

// removeForeign removes the segments that belong to none of some packs, in order, and what a crash left of some.
func removeForeign(fsys vfs.FS, store string, packs []packName) error {
	dir := filepath.Join(store, segmentsName)
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		base, whole := strings.CutSuffix(name, segmentSuffix)
		of, ok := parsePackName(base + packSuffix)
		_, known := slices.BinarySearchFunc(packs, of, packName.compare)
		if ok && !known || !whole && strings.HasSuffix(name, segmentSuffix+tmpSuffix) {
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}
