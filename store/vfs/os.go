package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"unsafe"

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

// Direct is fs, but files that are opened for reading are read past the page cache. It is
// for callers that cache what they read: they need no second copy in memory. A file that
// cannot be read in this way is read as usual.
func Direct(fs FS) FS { return direct{fs} }

type direct struct{ FS }

// Open implements [FS].
func (d direct) Open(name string) (File, error) {
	f, err := OpenRegular(name, os.O_RDONLY|syscall.O_DIRECT)
	if err != nil {
		return d.FS.Open(name)
	}
	return newDirectFile(f)
}

type directFile struct {
	osFile
	raw syscall.RawConn // of the file
}

func newDirectFile(f *os.File) (directFile, error) {
	raw, err := f.SyscallConn()
	return directFile{osFile{f}, raw}, err
}

const (
	// directAlign is what offsets, lengths and memory have to be a multiple of: the
	// largest logical block of today's disks.
	directAlign = 4096
	// directBytes bounds one read.
	directBytes = 1 << 20
)

// directRead is one read, whose buffer is aligned. It is used again.
type directRead struct {
	b    []byte
	off  int64
	n    int
	err  error
	call func(fd uintptr) // reads
}

var directReads = sync.Pool{New: func() any {
	b := make([]byte, directBytes+directAlign)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (directAlign - 1)
	r := &directRead{b: b[skip : skip+directBytes : skip+directBytes]}
	r.call = r.pread
	return r
}}

// ReadAt implements [io.ReaderAt].
func (f directFile) ReadAt(p []byte, off int64) (n int, err error) {
	r := directReads.Get().(*directRead)
	defer directReads.Put(r)
	for n < len(p) {
		at := off + int64(n)
		from := at &^ (directAlign - 1)
		skip := int(at - from)
		want := min(directBytes, (skip+len(p)-n+directAlign-1)&^(directAlign-1))
		got, err := r.read(f.raw, want, from)
		switch {
		case err != nil:
			return n, &os.PathError{Op: "read", Path: f.Name(), Err: err}
		case got <= skip:
			return n, io.EOF
		}
		n += copy(p[n:], r.b[skip:got])
	}
	return n, nil
}

// read reads n bytes. The descriptor stays that of the file, see [Control].
func (r *directRead) read(raw syscall.RawConn, n int, off int64) (int, error) {
	r.n, r.off = n, off
	if err := raw.Control(r.call); err != nil {
		return 0, err
	}
	return r.n, r.err
}

// pread is one system call: after a short one the next would not be aligned.
func (r *directRead) pread(fd uintptr) {
	b := r.b[:r.n]
	for {
		r.n, r.err = syscall.Pread(int(fd), b, r.off)
		switch {
		case errors.Is(r.err, syscall.EINTR):
		case errors.Is(r.err, syscall.EINVAL):
			// It could be opened, but cannot be read so.
			if ordinary(int(fd)) == nil {
				r.n, r.err = syscall.Pread(int(fd), b, r.off)
			}
			return
		default:
			return
		}
	}
}

// ordinary takes O_DIRECT off a descriptor.
func ordinary(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	return err
}
