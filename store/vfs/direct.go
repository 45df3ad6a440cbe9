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
	fd, err := OpenRegular(name, os.O_RDONLY|syscall.O_DIRECT)
	if err != nil {
		return d.FS.Open(name)
	}
	return directFile{osFile{fd}}, nil
}

type directFile struct{ osFile }

const (
	// directAlign is what offsets, lengths and memory have to be a multiple of: the
	// largest logical block of today's disks.
	directAlign = 4096
	// directBytes bounds one read.
	directBytes = 1 << 20
)

// directBuffers are aligned, and used again.
var directBuffers = sync.Pool{New: func() any {
	b := make([]byte, directBytes+directAlign)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (directAlign - 1)
	b = b[skip : skip+directBytes : skip+directBytes]
	return &b
}}

// ReadAt implements [io.ReaderAt].
func (f directFile) ReadAt(p []byte, off int64) (n int, err error) {
	held := directBuffers.Get().(*[]byte)
	defer directBuffers.Put(held)
	for n < len(p) {
		at := off + int64(n)
		from := at &^ (directAlign - 1)
		skip := int(at - from)
		want := min(directBytes, (skip+len(p)-n+directAlign-1)&^(directAlign-1))
		got, err := f.pread((*held)[:want], from)
		switch {
		case err != nil:
			return n, &os.PathError{Op: "read", Path: f.Name(), Err: err}
		case got <= skip:
			return n, io.EOF
		}
		n += copy(p[n:], (*held)[skip:got])
	}
	return n, nil
}

// pread is one system call: after a short one the next would not be aligned.
func (f directFile) pread(b []byte, off int64) (n int, err error) {
	fd := int(f.Fd())
	for {
		n, err = syscall.Pread(fd, b, off)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EINVAL):
			// It could be opened, but cannot be read so.
			if ordinary(fd) != nil {
				return 0, err
			}
			return syscall.Pread(fd, b, off)
		default:
			return n, err
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
