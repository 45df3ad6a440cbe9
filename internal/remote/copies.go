package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

const (
	// fetchBytes and fetches say how a file is fetched as a whole: in ranges, several at
	// once.
	fetchBytes = 8 << 20
	fetches    = 6
	// copyTail is what follows the bytes of a file in its copy: their checksum, CRC32C,
	// and copyMagic.
	copyTail  = 4 + len(copyMagic)
	copyMagic = "pipefs copy\n"
	// unusedCopies are removed when they are so old.
	unusedCopies = 24 * time.Hour
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// dir is where the copies of this place are.
func (f *FS) dir() string { return filepath.Join(f.o.Copies, digest(f.root)) }

// copyName is the path of the copy of an object; no two versions have the same.
func (f *FS) copyName(i blob.Info) string {
	return filepath.Join(f.dir(), digest(i.Name, string(i.Version), fmt.Sprint(i.Size))+"-"+base(i))
}

// errNotKept is that a copy could not be written, for want of room or rights.
var errNotKept = errors.New("the copy cannot be kept")

// copied opens the copy of a file, which is fetched if it is not there. Where it cannot be kept, it
// is fetched for this process alone.
func (f *FS) copied(i blob.Info) (vfs.File, error) {
	if f.o.Copies == "" {
		return f.fetchInto(os.TempDir(), "", i)
	}
	path := ""
	if !once(i.Name) {
		path = f.copyName(i)
		c, err := f.openCopy(path, i)
		if err == nil {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // when it was used last
			return c, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			f.o.Log.Warn("the local copy of a file is damaged and is fetched again", "file", f.root+"/"+i.Name, "copy", path, "cause", err)
		}
	}
	c, err := f.fetchInto(f.dir(), path, i)
	if errors.Is(err, errNotKept) {
		f.o.Log.Warn("copies cannot be kept; they are fetched at each mount", "dir", f.o.Copies, "cause", err)
		return f.fetchInto(os.TempDir(), "", i)
	}
	return c, err
}

// fetchInto fetches a file into a directory, and gives it its name; "" leaves it without one.
func (f *FS) fetchInto(dir, path string, i blob.Info) (vfs.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotKept, err)
	}
	tmp, err := os.CreateTemp(dir, "fetching-*")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotKept, err)
	}
	defer os.Remove(tmp.Name()) // unless it was renamed
	defer tmp.Close()
	if err := f.fetch(tmp, i); err != nil {
		return nil, err
	}
	if path == "" {
		return f.openCopy(tmp.Name(), i)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotKept, err)
	}
	return f.openCopy(path, i)
}

func (f *FS) fetch(to *os.File, i blob.Info) error {
	g, ctx := errgroup.WithContext(f.ctx)
	g.SetLimit(fetches)
	for off := int64(0); off < i.Size; off += fetchBytes {
		g.Go(func() error {
			b := make([]byte, min(fetchBytes, i.Size-off))
			err := f.objects.ReadAt(ctx, i.Name, i.Version, b, off)
			if err != nil {
				return err
			}
			return write(to, b, off)
		})
	}
	err := g.Wait()
	if cause := context.Cause(f.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	h := crc32.New(castagnoli)
	if _, err := io.Copy(h, io.NewSectionReader(to, 0, i.Size)); err != nil {
		return err
	}
	return write(to, append(binary.LittleEndian.AppendUint32(nil, h.Sum32()), copyMagic...), i.Size)
}

func write(to *os.File, b []byte, off int64) error {
	if _, err := to.WriteAt(b, off); err != nil {
		return fmt.Errorf("%w: %w", errNotKept, err)
	}
	return nil
}

// openCopy opens a copy if it holds what was fetched.
func (f *FS) openCopy(path string, i blob.Info) (vfs.File, error) {
	file, err := vfs.OS.Open(path)
	if err != nil {
		return nil, err
	}
	if err := checkCopy(file, i.Size); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &whole{entry{f, i}, file}, nil
}

func checkCopy(file vfs.File, size int64) error {
	if is, err := file.Size(); err != nil || is != size+int64(copyTail) {
		return errors.Join(err, fmt.Errorf("%d bytes, want %d", is, size+int64(copyTail)))
	}
	h := crc32.New(castagnoli)
	if _, err := io.Copy(h, io.NewSectionReader(file, 0, size)); err != nil {
		return err
	}
	tail := make([]byte, copyTail)
	if _, err := file.ReadAt(tail, size); err != nil {
		return err
	}
	if !bytes.Equal(tail, append(binary.LittleEndian.AppendUint32(nil, h.Sum32()), copyMagic...)) {
		return errors.New("its checksum differs")
	}
	return nil
}

// forgetCopies removes copies of what the place does not hold any more, and what was left by
// processes that were killed. What is open goes on being read.
func (f *FS) forgetCopies() {
	if f.o.Copies == "" {
		return
	}
	entries, err := os.ReadDir(f.dir())
	if err != nil {
		return
	}
	known := map[string]bool{}
	for _, i := range f.listed {
		if !isPack(i.Name) {
			known[filepath.Base(f.copyName(i))] = true
		}
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && !known[e.Name()] && time.Since(info.ModTime()) > unusedCopies {
			_ = os.Remove(filepath.Join(f.dir(), e.Name()))
		}
	}
}

// whole is a file of which there is a copy.
type whole struct {
	entry
	file vfs.File
}

// ReadAt implements [io.ReaderAt].
func (w *whole) ReadAt(b []byte, off int64) (int, error) {
	if off >= w.info.Size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), w.info.Size-off))
	got, err := w.file.ReadAt(b[:n], off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return got, err
}

// Close implements [io.Closer].
func (w *whole) Close() error { return w.file.Close() }
