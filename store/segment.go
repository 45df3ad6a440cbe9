package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// A segment is the list of one pack: its entries, of each path the newest, tombstones included. It
// is a copy of what the footer says.
const (
	segmentsName  = "segments"
	segmentSuffix = ".segment"
)

// writeSegment writes the segment of a pack, whose records are given, into an empty file.
func writeSegment(f vfs.File, n packName, records []described) (listSeal, error) {
	w := newListWriter(f)
	if err := addEntries(w, n, records); err != nil {
		return listSeal{}, err
	}
	return w.finish(n.id)
}

// addEntries writes the items of a segment.
func addEntries(w *listWriter, n packName, records []described) error {
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
			return corruptAt(n, r.metaOff, "", err)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(ComparePaths(a.path, b.path), cmp.Compare(b.seq, a.seq)) // the newest first
	})
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return string(a.path) == string(b.path) })
	var item []byte
	for _, e := range entries {
		item = appendItem(item[:0], e.at)
		if err := w.add(append(item, e.raw...)); err != nil {
			return err
		}
	}
	return nil
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
		s = seal.segment()
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
func openSegment(fsys vfs.FS, store string, n packName, want segmentSeal) (*list, error) {
	name := n.segment()
	f, err := fsys.Open(filepath.Join(store, name))
	if err != nil {
		return nil, err
	}
	l, err := openList(f, n.id)
	if err != nil {
		return nil, damaged(name, err)
	}
	if want != (segmentSeal{}) && l.seal.segment() != want {
		return nil, errors.Join(damaged(name, errors.New("not the one that the generation names")), f.Close())
	}
	return l, nil
}

// temporaryList writes a list into a file of dir without a name: whatever ends the process, it is
// gone. "" is os.TempDir.
func temporaryList(dir string, of packID, write func(*listWriter) error) (*list, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	name := filepath.Join(dir, fmt.Sprintf("pipefs-index-%016x", rand.Uint64()))
	f, err := vfs.OS.Create(name)
	if err != nil {
		return nil, err
	}
	if err := vfs.OS.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w := newListWriter(f)
	if err := write(w); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := w.finish(of); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return openList(f, of)
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
