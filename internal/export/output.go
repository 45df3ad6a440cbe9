package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/source"
)

// output is the directory that an export writes into, and never out of: links in
// it that lead elsewhere are not followed.
type output struct {
	root *os.Root
	lock *os.File // the directory itself, locked
	next atomic.Int64
}

// A file gets its name when it is whole. Until then it lies beside it under a
// name that begins and ends like this.
const (
	unfinishedPrefix = ".pipefs-export-"
	unfinishedSuffix = ".tmp"
)

// openOutput opens the directory, made if need be.
func openOutput(dir string) (_ *output, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("OUT: %w", err)
	}
	o := &output{}
	if o.root, err = os.OpenRoot(dir); err != nil {
		return nil, fmt.Errorf("OUT: %w", err)
	}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if o.lock, err = o.root.Open("."); err != nil {
		return nil, fmt.Errorf("OUT: %w", err)
	}
	// A second export would take our unfinished files for left-overs. Where a file
	// system has no locks there is no telling.
	if err := unix.Flock(int(o.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("another pipefs export writes to %s; wait for it to end", dir)
	}
	return o, o.removeUnfinished(".")
}

func (o *output) close() {
	if o.lock != nil {
		o.lock.Close()
	}
	o.root.Close()
}

// sync returns when everything is on the disk.
func (o *output) sync() error { return unix.Syncfs(int(o.lock.Fd())) }

// removeUnfinished removes from a directory what an export that was killed left unfinished.
func (o *output) removeUnfinished(dir string) error {
	d, err := o.root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			if strings.HasPrefix(name, unfinishedPrefix) && strings.HasSuffix(name, unfinishedSuffix) {
				if err := o.root.Remove(path.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// mkdir makes a directory that files can be written into, or finds it.
func (o *output) mkdir(name string) error {
	err := o.root.Mkdir(name, 0o777)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := o.root.Stat(name)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("a file is there under the name of this directory; move it away")
	case info.Mode().Perm()&0o700 != 0o700: // finished by an earlier export
		if err := o.root.Chmod(name, info.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	return o.removeUnfinished(name)
}

// look returns what has a file's name, nil if nothing has, and reports whether that is a file with
// the time that it should have.
func (o *output) look(name string, a source.Attr) (there fs.FileInfo, dated bool) {
	info, err := o.root.Lstat(name)
	if err != nil {
		return nil, false
	}
	return info, info.Mode().IsRegular() && sameTime(info.ModTime().UnixNano(), a.MTime)
}

// sameTime reports whether got is what a file system makes of the time want. Not
// all count in ns: some in 100 ns, µs, seconds or pairs of seconds.
func sameTime(got, want int64) bool {
	for _, tick := range []int64{1, 100, 1e3, 1e9, 2e9} {
		if got == want-want%tick {
			return true
		}
	}
	return false
}

var buffers = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// sizedReader is content of a known size.
type sizedReader interface {
	io.ReaderAt
	Size() int64
}

// write makes a file, or leaves what was there.
func (o *output) write(ctx context.Context, name string, content sizedReader, a source.Attr) (err error) {
	tmp := path.Join(path.Dir(name), fmt.Sprintf("%s%d-%d%s", unfinishedPrefix, os.Getpid(), o.next.Add(1), unfinishedSuffix))
	f, err := o.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = o.root.Remove(tmp)
		}
	}()
	err = fill(ctx, f, content)
	if err == nil {
		err = f.Chmod(a.Mode.Perm())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := o.root.Chtimes(tmp, time.Time{}, time.Unix(0, a.MTime)); err != nil {
		return err
	}
	return o.root.Rename(tmp, name)
}

// fill writes all of the content.
func fill(ctx context.Context, w io.Writer, content sizedReader) error {
	buf := buffers.Get().(*[1 << 20]byte)
	defer buffers.Put(buf)
	for off := int64(0); off < content.Size(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(int64(len(buf)), content.Size()-off)]
		if n, err := content.ReadAt(b, off); n < len(b) {
			if err == nil || errors.Is(err, io.EOF) {
				err = fmt.Errorf("%d bytes where %d were promised: %w", off+int64(n), content.Size(), io.ErrUnexpectedEOF)
			}
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// finish gives a directory its permissions and its time.
func (o *output) finish(name string, a source.Attr) error {
	if err := o.root.Chmod(name, a.Mode.Perm()); err != nil {
		return err
	}
	return o.root.Chtimes(name, time.Time{}, time.Unix(0, a.MTime))
}
