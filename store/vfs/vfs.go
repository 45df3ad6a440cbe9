// Package vfs is the small interface through which a store does its I/O, so
// that tests can make any operation fail and packs can one day live elsewhere.
package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrConflict is the class of errors about a file that another writer has replaced meanwhile;
// it was not changed. Only places that several machines write to have it.
var ErrConflict = errors.New("another writer was first")

// FS is a file system. Names are paths as the operating system has them.
// Errors wrap those of package io/fs where one fits. What a name leads to is
// opened only if it is a regular file: ErrNotRegular.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Create opens a file for reading and writing, which must not exist yet.
	Create(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// Size is the length of a file in bytes.
	Size(name string) (int64, error)
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// MkdirAll makes a directory and its parents.
	MkdirAll(dir string) error
	// Rename replaces what newname names, atomically; both are in the same file
	// system.
	Rename(oldname, newname string) error
	Remove(name string) error
	// RemoveAll removes a tree; one that is not there is no error.
	RemoveAll(name string) error
	// SyncDir makes durable which names a directory holds.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a file, made if need be, until Close. It
	// does not wait: ErrLocked says that another holds it.
	Lock(name string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt may be called concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes the content and the length durable.
	Sync() error
}

// Kept is what a File may offer in addition: what it reads comes out of a cache.
type Kept interface {
	// Forget has the next read of a range, in bytes, go to where the file itself is.
	Forget(off, n int64)
}

// Advised is what a File may offer in addition: it takes advice about the reads to come.
type Advised interface {
	// Scattered says that reads will come from anywhere: what lies behind one of
	// them is not worth fetching.
	Scattered()
	// Fetch begins to fetch a range, in bytes, that is about to be read.
	Fetch(off, n int64)
	// Ahead is how many bytes are worth fetching ahead of a reader, of all places together
	// where it goes on, and how many Fetch takes at once.
	Ahead() (window, piece int64)
}

// Control calls f with the descriptor of a file. The descriptor is that of this file until f returns, also if
// another goroutine closes the file meanwhile. One that [os.File.Fd] returned may be another file's by then.
func Control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// Flock locks or unlocks a file, see flock(2).
func Flock(file *os.File, how int) error {
	return Control(file, func(fd int) error {
		for {
			if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}
