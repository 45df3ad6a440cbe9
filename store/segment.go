package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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

// temporaryList writes a list into a file without a name: whatever ends the process, it is gone.
func temporaryList(of packID, write func(*listWriter) error) (*list, error) {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("pipefs-index-%016x", rand.Uint64()))
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
		if whole && ok && !known || strings.HasSuffix(name, segmentSuffix+tmpSuffix) {
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// scanned is a record that scan found.
type scanned struct {
	off, end int64
	at       place
	meta     []byte // only until the next record
	samples  []Sample
}

// scan walks over the records of a pack by their own headers, without a footer,
// from the header up to limit. It ends before the first record that does not
// hold; the error it yields last says why. With data, checksums of the data are
// verified too.
func scan(f io.ReaderAt, p packRef, limit int64, data bool) iter.Seq2[scanned, error] {
	return func(yield func(scanned, error) bool) {
		buf := make([]byte, headerSize)
		if limit < headerSize {
			yield(scanned{}, corruptAt(p.packName, 0, "", errShort))
			return
		}
		if err := readFull(f, buf, 0); err != nil {
			yield(scanned{}, corruptAt(p.packName, 0, "", err))
			return
		}
		if err := checkPackHeader(buf, p.age); err != nil {
			yield(scanned{}, corruptAt(p.packName, 0, "", err))
			return
		}
		for off := int64(headerSize); off < limit; {
			rec, err := readRecord(f, p, off, limit, &buf)
			if err == nil && data {
				err = verifyRecord(f, p.packName, rec)
			}
			if !yield(rec, err) || err != nil {
				return
			}
			off = rec.end
		}
	}
}

// readRecord reads and checks the header of the record at off, which ends
// before limit. buf is scratch.
func readRecord(f io.ReaderAt, p packRef, off, limit int64, buf *[]byte) (scanned, error) {
	rec := scanned{off: off, end: off}
	var head [frameSize]byte
	if err := readFull(f, head[:], off); err != nil {
		return rec, corruptAt(p.packName, off, "", err)
	}
	fr, err := parseFrame(head[:])
	if err != nil {
		return rec, corruptAt(p.packName, off, "", err)
	}
	rec.at = place{pack: p.number, base: off + frameSize + int64(fr.meta), size: fr.data}
	if rec.at.base+rec.at.size > limit {
		return rec, corruptAt(p.packName, off, "", fmt.Errorf("record of %d bytes: %w", rec.at.base+rec.at.size-off, errShort))
	}
	if cap(*buf) < fr.meta {
		*buf = make([]byte, fr.meta)
	}
	rec.meta = (*buf)[:fr.meta]
	if err = readFull(f, rec.meta, off+frameSize); err == nil && sum(rec.meta) != fr.metaSum {
		err = errors.New("entries of a record: checksum differs")
	}
	if err == nil {
		rec.samples, err = decodeRecord(rec.meta, rec.at)
	}
	if err != nil {
		return rec, corruptAt(p.packName, off, "", err)
	}
	rec.end = rec.at.base + rec.at.size
	return rec, nil
}

// eachPart calls f with all parts of some samples, and the path of each one's sample.
func eachPart(samples []Sample, f func(path string, p Part) error) error {
	for i := range samples {
		for _, r := range samples[i].Representations {
			for _, p := range r.Parts {
				if err := f(samples[i].Path, p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// verifyRecord checks the data of a record.
func verifyRecord(f io.ReaderAt, pack packName, rec scanned) error {
	return eachPart(rec.samples, func(path string, p Part) error { return verifyPart(f, pack, p, path) })
}

func verifyPart(f io.ReaderAt, pack packName, p Part, path string) error {
	return eachChunk(f, pack, p, path, func([]byte) error { return nil })
}

// eachChunk calls use with the chunks of a part, if they hold. use must not keep them.
func eachChunk(f io.ReaderAt, pack packName, p Part, path string, use func([]byte) error) error {
	scratch := scratches.Get().(*[ChunkSize]byte)
	defer scratches.Put(scratch)
	for i, want := range p.Sums {
		off := int64(i) * ChunkSize
		b := scratch[:min(ChunkSize, p.Len-off)]
		err := readFull(f, b, p.Off+off)
		if err == nil && sum(b) != want {
			err = errSum
		}
		if err != nil {
			return corruptAt(pack, p.Off+off, path, err)
		}
		if err := use(b); err != nil {
			return err
		}
	}
	return nil
}
