package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

const (
	unfinished = reserved + "unfinished-" // and a random end
	lockName   = reserved + "lock"
	// staleAfter is the age from which on an unfinished file has lost its writer.
	staleAfter = 24 * time.Hour
)

// PutIfAbsent implements [Objects].
func (d *Directory) PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (Version, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if _, err := os.Lstat(d.path(name)); err == nil {
		return "", fmt.Errorf("%s: %w", d.path(name), ErrExists)
	}
	return d.write(ctx, name, body, size, unix.RENAME_NOREPLACE)
}

// PutIfMatch implements [Objects]. Writers of a place take turns by a lock (flock) on a file in
// it. Local file systems keep such a lock, and so do NFS from version 4 on, and CephFS. NFS
// mounted with nolock or local_lock, and many file systems in user space (sshfs, s3fs, rclone)
// do not: there, two machines must not write to one place at the same time.
func (d *Directory) PutIfMatch(ctx context.Context, name string, v Version, data []byte) (Version, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	is, err := d.Stat(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if is.Version != v {
		return "", fmt.Errorf("%s: %w", d.path(name), ErrChanged)
	}
	flags := uint(0)
	if v == "" {
		flags = unix.RENAME_NOREPLACE
	}
	v, err = d.write(ctx, name, bytes.NewReader(data), int64(len(data)), flags)
	if errors.Is(err, ErrExists) {
		err = fmt.Errorf("%s: %w", d.path(name), ErrChanged)
	}
	return v, err
}

// Delete implements [Objects]. A directory that becomes empty goes away with its last object.
func (d *Directory) Delete(ctx context.Context, name string) error {
	if _, err := d.Stat(ctx, name); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(d.path(name))
	for dir != d.root && unix.Rmdir(dir) == nil {
		dir = filepath.Dir(dir)
	}
	return syncDir(dir)
}

// lock waits until no other writer of the place is between comparing and renaming.
func (d *Directory) lock(ctx context.Context) (unlock func(), err error) {
	if err := makeDir(d.root); err != nil {
		return nil, err
	}
	path := filepath.Join(d.root, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := mounts.Lock(ctx, f, unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// write makes the file of an object. Flags are those of renameat2.
func (d *Directory) write(ctx context.Context, name string, body io.ReaderAt, size int64, flags uint) (v Version, err error) {
	dir := filepath.Dir(d.path(name))
	f, err := d.createUnfinished(dir)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}()
	n, err := io.Copy(f, &interruptible{ctx, io.NewSectionReader(body, 0, size)})
	if err != nil {
		return "", err
	}
	if n != size {
		return "", fmt.Errorf("%s: what is to be written ends after %d of %d bytes: %w", d.path(name), n, size, io.ErrUnexpectedEOF)
	}
	// The system's clock for files moves in steps of milliseconds. Two files that had one inode
	// number, one after the other, are told apart by a finer time.
	if err := os.Chtimes(f.Name(), time.Time{}, time.Now()); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	if err := rename(f.Name(), d.path(name), flags); err != nil {
		return "", err
	}
	i, err := statObject(f, name)
	if err != nil {
		return "", err
	}
	return i.Version, syncDir(dir)
}

// rename is renameat2, and on file systems that cannot refuse to replace a file, a hard link.
func rename(from, to string, flags uint) error {
	err := ignoringEINTR(func() error { return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags) })
	if flags == unix.RENAME_NOREPLACE && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)) {
		if err = unix.Link(from, to); err == nil {
			err = unix.Unlink(from)
		}
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s: %w", to, ErrExists)
	case err != nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// createUnfinished makes a file to write to, and its directory, and removes what crashes left
// there long ago.
func (d *Directory) createUnfinished(dir string) (*os.File, error) {
	for try := 0; ; try++ {
		if err := makeDir(dir); err != nil {
			return nil, err
		}
		if _, seen := d.collected.LoadOrStore(dir, true); !seen {
			collect(dir)
		}
		f, err := os.OpenFile(filepath.Join(dir, unfinished+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrNotExist) && try < 100 { // another writer removed the empty directory
			continue
		}
		return f, err
	}
}

// makeDir makes a directory and those above it durable.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o777)
	switch {
	case err == nil:
		return syncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		return nil
	case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
		return err
	}
	if err := makeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	return makeDir(dir)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// collect removes unfinished files that have lost their writers.
func collect(dir string) {
	names, _ := readNames(dir)
	for _, name := range names {
		if !strings.HasPrefix(name, unfinished) {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(path)
		}
	}
}

// interruptible is a reader that ends with its context.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (r *interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}
