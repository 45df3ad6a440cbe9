package vfs

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
