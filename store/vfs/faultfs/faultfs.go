// Package faultfs makes operations of a file system or of a place of objects fail, and forgets what was
// not synced, for tests.
package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pipefs/pipefs/store/vfs"
)

// Op is an operation that is about to happen.
type Op struct {
	N    int64  // counts from 1
	Kind string // "open", "create", "write", "read", "sync", "rename", …
	Name string // of the file
}

// ErrShort as what Inject returns makes a write store half of its bytes and then
// fail with ENOSPC; any other operation it makes fail with EIO.
var ErrShort = errors.New("short write")

// FS passes everything on to Base, unless Inject says otherwise.
type FS struct {
	Base vfs.FS
	// Inject is called before each operation, concurrently; what it returns, if
	// not nil, is what the operation returns instead of happening.
	Inject func(Op) error

	n atomic.Int64

	mu   sync.Mutex
	held map[*handle]string // its name
}

var _ vfs.FS = (*FS)(nil)

// Nth returns an Inject that fails the nth operation, once.
func Nth(n int64, err error) func(Op) error {
	return func(op Op) error {
		if op.N == n {
			return err
		}
		return nil
	}
}

// From returns an Inject that fails the nth operation and all later ones.
func From(n int64, err error) func(Op) error {
	return func(op Op) error {
		if op.N >= n {
			return err
		}
		return nil
	}
}

// Ops is the number of operations so far.
func (f *FS) Ops() int64 { return f.n.Load() }

// Held returns the names of the files that are open, and of the locks that are held.
func (f *FS) Held() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Values(f.held))
}

// handle is an open file or a lock.
type handle struct {
	io.Closer
	fs *FS
}

func (f *FS) hold(c io.Closer, name string) *handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = map[*handle]string{}
	}
	h := &handle{c, f}
	f.held[h] = name
	return h
}

func (h *handle) Close() error {
	h.fs.mu.Lock()
	delete(h.fs.held, h)
	h.fs.mu.Unlock()
	return h.Closer.Close()
}

func (f *FS) op(kind, name string) error {
	err := f.Inject(Op{N: f.n.Add(1), Kind: kind, Name: name})
	if err == nil || errors.Is(err, ErrShort) && kind == "write" {
		return err
	}
	if errors.Is(err, ErrShort) {
		err = syscall.EIO
	}
	return &fs.PathError{Op: kind, Path: name, Err: err}
}

func (f *FS) file(kind, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if err := f.op(kind, name); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{file, f, name, f.hold(file, name)}, nil
}

// Open implements vfs.FS, as do all methods below.
func (f *FS) Open(name string) (vfs.File, error) { return f.file("open", name, f.Base.Open) }

// Create implements [vfs.FS].
func (f *FS) Create(name string) (vfs.File, error) { return f.file("create", name, f.Base.Create) }

// OpenWrite implements [vfs.FS].
func (f *FS) OpenWrite(name string) (vfs.File, error) {
	return f.file("open", name, f.Base.OpenWrite)
}

// Size implements [vfs.FS].
func (f *FS) Size(name string) (int64, error) {
	if err := f.op("stat", name); err != nil {
		return 0, err
	}
	return f.Base.Size(name)
}

// List implements [vfs.FS].
func (f *FS) List(dir string) ([]string, error) {
	if err := f.op("list", dir); err != nil {
		return nil, err
	}
	return f.Base.List(dir)
}

// MkdirAll implements [vfs.FS].
func (f *FS) MkdirAll(dir string) error {
	if err := f.op("mkdir", dir); err != nil {
		return err
	}
	return f.Base.MkdirAll(dir)
}

// Rename implements [vfs.FS].
func (f *FS) Rename(oldname, newname string) error {
	if err := f.op("rename", oldname); err != nil {
		return err
	}
	return f.Base.Rename(oldname, newname)
}

// Remove implements [vfs.FS].
func (f *FS) Remove(name string) error {
	if err := f.op("remove", name); err != nil {
		return err
	}
	return f.Base.Remove(name)
}

// RemoveAll implements [vfs.FS].
func (f *FS) RemoveAll(name string) error {
	if err := f.op("remove", name); err != nil {
		return err
	}
	return f.Base.RemoveAll(name)
}

// SyncDir implements [vfs.FS].
func (f *FS) SyncDir(dir string) error {
	if err := f.op("syncdir", dir); err != nil {
		return err
	}
	return f.Base.SyncDir(dir)
}

// Lock implements [vfs.FS].
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := f.op("lock", name); err != nil {
		return nil, err
	}
	lock, err := f.Base.Lock(name)
	if err != nil {
		return nil, err
	}
	return f.hold(lock, name), nil
}

type faultFile struct {
	vfs.File
	fs     *FS
	name   string
	handle *handle
}

func (f *faultFile) Close() error { return f.handle.Close() }

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.op("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.fs.op("write", f.name)
	if errors.Is(err, ErrShort) {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
	}
	if err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *faultFile) Size() (int64, error) {
	if err := f.fs.op("stat", f.name); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.fs.op("truncate", f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Sync() error {
	if err := f.fs.op("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}
