package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrLocked is what Lock returns while another process, or another part of this
// one, holds the lock.
var ErrLocked = errors.New("the lock is held")

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Scattered implements [Advised]. It is only advice: that it fails does no harm.
func (f osFile) Scattered() { f.advise(0, 0, unix.FADV_RANDOM) }

// Fetch implements [Advised].
func (f osFile) Fetch(off, n int64) { f.advise(off, n, unix.FADV_WILLNEED) }

func (f osFile) advise(off, n int64, advice int) {
	_ = Control(f.File, func(fd int) error { return unix.Fadvise(fd, off, n, advice) })
}

// Ahead implements [Advised]. Some systems cut off what is more than 128 KiB at once.
func (f osFile) Ahead() (window, piece int64) { return 512 << 10, 128 << 10 }

func open(name string, flag int) (File, error) {
	f, err := OpenRegular(name, flag)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// ErrNotRegular is the cause where a name leads to a link, a FIFO, a socket or a
// device. Otherwise a user who may write into a directory could make a process with
// more rights wait without end, or write elsewhere.
var ErrNotRegular = errors.New("not a regular file (a link, a FIFO or a device): pipefs does not open it; remove it")

// OpenRegular opens a regular file by its own name. It neither follows a link nor
// waits.
func OpenRegular(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, notRegular(name)
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = notRegular(name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func notRegular(name string) error {
	return &os.PathError{Op: "open", Path: name, Err: ErrNotRegular}
}

// openDir opens a directory. What is none is an error, and is not waited for.
func openDir(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

func (osFS) Open(name string) (File, error) { return open(name, os.O_RDONLY) }

func (osFS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) OpenWrite(name string) (File, error) { return open(name, os.O_RDWR) }

func (osFS) Size(name string) (int64, error) {
	st, err := os.Lstat(name)
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, notRegular(name)
	}
	return st.Size(), nil
}

func (osFS) List(dir string) ([]string, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (osFS) MkdirAll(dir string) error            { return os.MkdirAll(dir, 0o755) }
func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }
func (osFS) Remove(name string) error             { return os.Remove(name) }
func (osFS) RemoveAll(name string) error          { return os.RemoveAll(name) }

func (osFS) SyncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := OpenRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err = Flock(f, unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return flock{f}, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: %w", name, ErrLocked)
	}
	return nil, fmt.Errorf("lock %s: %w", name, err)
}

type flock struct{ f *os.File }

// Close implements [io.Closer]. A process that is just being started holds the file for a moment,
// too.
func (l flock) Close() error {
	return errors.Join(Flock(l.f, unix.LOCK_UN), l.f.Close())
}
