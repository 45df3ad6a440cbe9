package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/pipefs/pipefs/store/vfs"
)

// packWriter appends records to an unfinished pack and seals it. After its
// first error it refuses everything: what reached the disk is then unknown.
type packWriter struct {
	fs     vfs.FS
	dir    string
	age    uint64
	f      vfs.File
	end    int64 // where the next record goes
	synced int64 // what is durable
	footer []byte
	count  int64  // of records
	id     packID // that it is to get; zero: it follows from what the pack holds
	err    error
}

// writeSize is how much is gathered before it is written, in bytes.
const writeSize = 1 << 20

// name is that of the pack while it grows.
func (w *packWriter) name() packName { return packName{age: w.age} }

func (w *packWriter) file(n packName) string { return filepath.Join(w.dir, n.String()) }

// createPack begins a pack.
func createPack(fsys vfs.FS, dir string, age uint64) (*packWriter, error) {
	w := &packWriter{fs: fsys, dir: dir, age: age, end: headerSize}
	var err error
	if w.f, err = fsys.Create(w.file(w.name())); err != nil {
		return nil, err
	}
	if _, err = w.f.WriteAt(appendPackHeader(nil, age), 0); err == nil {
		// The name has to be durable before the records are.
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		err = fmt.Errorf("begin %s: %w", w.name(), err)
		return nil, errors.Join(err, w.f.Close(), fsys.Remove(w.file(w.name())))
	}
	return w, nil
}

// resumePack opens an unfinished pack, takes over every record that holds, from
// the first on, and cuts off the rest. It calls each for those it keeps.
func resumePack(fsys vfs.FS, dir string, age uint64, each func(scanned) error) (*packWriter, error) {
	w := &packWriter{fs: fsys, dir: dir, age: age}
	f, err := fsys.OpenWrite(w.file(w.name()))
	if err != nil {
		return nil, err
	}
	w.f = f
	if err := w.salvage(each); err != nil {
		return nil, errors.Join(fmt.Errorf("resume %s: %w", w.name(), err), f.Close())
	}
	return w, nil
}

func (w *packWriter) salvage(each func(scanned) error) error {
	size, err := w.f.Size()
	if err != nil {
		return err
	}
	for rec, err := range scan(w.f, byAge(w.name()), size, true) {
		if isIOError(err) || errors.Is(err, ErrVersion) {
			return err // not a reason to cut anything off
		}
		if err != nil {
			break
		}
		if err := each(rec); err != nil {
			return err
		}
		w.end = rec.end
		w.describe(rec.off, rec.at.size, rec.meta)
	}
	if w.end == 0 { // not even a header
		if _, err := w.f.WriteAt(appendPackHeader(nil, w.age), 0); err != nil {
			return err
		}
		w.end = headerSize
	}
	if size > w.end {
		if err := w.f.Truncate(w.end); err != nil {
			return err
		}
	}
	// Records may have been read from memory that never reached the disk.
	if err := w.f.Sync(); err != nil {
		return err
	}
	w.synced = w.end
	return nil
}

// describe adds a record to the footer.
func (w *packWriter) describe(off, size int64, meta []byte) {
	w.footer = binary.AppendUvarint(w.footer, uint64(off))
	w.footer = binary.AppendUvarint(w.footer, uint64(size))
	w.footer = appendBytes(w.footer, meta)
	w.count++
}

// size is what the pack would have if it were sealed now.
func (w *packWriter) size() int64 {
	return w.end + int64(len(w.footer)) + binary.MaxVarintLen64 + trailerSize
}

// full reports whether the pack is to be sealed.
func (w *packWriter) full(limit int64) bool {
	return w.end >= limit || len(w.footer) >= sealFooter
}

// length is what a record takes in a pack, without what the footer says of it.
func (r *record) length() int64 { return frameSize + int64(len(r.meta)) + r.size }

// append writes a record and returns its offset.
func (w *packWriter) append(r *record) (int64, error) {
	if w.err != nil {
		return 0, w.err
	}
	off := w.end
	out := bufio.NewWriterSize(io.NewOffsetWriter(w.f, off), int(min(r.length(), writeSize)))
	_, _ = out.Write(appendFrame(nil, frame{meta: len(r.meta), data: r.size, metaSum: sum(r.meta)}))
	_, _ = out.Write(r.meta)
	for _, b := range r.data {
		_, _ = out.Write(b)
	}
	if err := out.Flush(); err != nil { // the first error of all
		w.err = fmt.Errorf("write %s, offset %d: %w", w.name(), off, err)
		return 0, w.err
	}
	w.end += r.length()
	w.describe(off, r.size, r.meta)
	return off, nil
}

// sync makes all records durable.
func (w *packWriter) sync() error {
	if w.err != nil || w.synced == w.end {
		return w.err
	}
	if err := w.f.Sync(); err != nil {
		w.err = fmt.Errorf("sync %s: %w", w.name(), err)
		// The kernel may now hold as clean what is not on the disk, and a later
		// run would trust it. Better to make it once more.
		_ = w.f.Truncate(max(w.synced, headerSize))
		return w.err
	}
	w.synced = w.end
	return nil
}

// seal writes the footer, reads everything back, and gives the pack its name.
// The writer is finished, whatever comes of it. Before the pack gets its name, named gets
// that.
func (w *packWriter) seal(named func(packName)) (packSeal, error) {
	s, err := w.finish()
	err = errors.Join(err, w.f.Close())
	if err == nil {
		if named != nil {
			named(s.name())
		}
		err = w.fs.Rename(w.file(w.name()), w.file(s.name()))
	}
	if err == nil {
		err = w.fs.SyncDir(w.dir)
	}
	if err != nil {
		w.err = fmt.Errorf("seal %s: %w", w.name(), err)
		return s, w.err
	}
	w.err = ErrClosed
	return s, nil
}

func (w *packWriter) finish() (packSeal, error) {
	if w.err != nil {
		return packSeal{}, w.err
	}
	footer := binary.AppendUvarint(nil, uint64(w.count))
	footer = append(footer, w.footer...)
	s := packSeal{
		ID: makePackID(w.age, footer), Age: w.age, Records: w.count, FooterSum: sum(footer),
		footerOff: w.end, footerLen: int64(len(footer)),
	}
	if w.id != (packID{}) {
		s.ID = w.id
	}
	s.Size = w.end + s.footerLen + trailerSize
	if _, err := w.f.WriteAt(appendTrailer(footer, s), w.end); err != nil {
		return s, err
	}
	if err := w.f.Sync(); err != nil {
		_ = w.f.Truncate(max(w.synced, headerSize)) // as in sync
		return s, err
	}
	for _, err := range scan(w.f, byAge(w.name()), w.end, true) {
		if err != nil {
			return s, fmt.Errorf("read back: %w", err)
		}
	}
	got, _, err := readFooter(w.f, byAge(s.name()))
	if err == nil && got != s {
		err = corruptAt(w.name(), w.end, "", errors.New("read back: another footer than was written"))
	}
	return s, err
}

// discard removes the unfinished pack.
func (w *packWriter) discard() error {
	w.err = ErrClosed
	return errors.Join(w.f.Close(), w.fs.Remove(w.file(w.name())))
}

// close leaves the pack unfinished, for the next run.
func (w *packWriter) close() error {
	err := errors.Join(w.sync(), w.f.Close())
	if w.err == nil {
		w.err = ErrClosed
	}
	return err
}
