package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/ahead"
)

// Everything that would change something is refused here. The kernel mostly does
// so itself, as the mount is read-only, but it can be mounted again as writable.

// SetAttr is refused.
func (f *FS) SetAttr(<-chan struct{}, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.EROFS }

// Mknod is refused.
func (f *FS) Mknod(<-chan struct{}, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Mkdir is refused.
func (f *FS) Mkdir(<-chan struct{}, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Unlink is refused.
func (f *FS) Unlink(<-chan struct{}, *fuse.InHeader, string) fuse.Status { return fuse.EROFS }

// Rmdir is refused.
func (f *FS) Rmdir(<-chan struct{}, *fuse.InHeader, string) fuse.Status { return fuse.EROFS }

// Rename is refused.
func (f *FS) Rename(<-chan struct{}, *fuse.RenameIn, string, string) fuse.Status { return fuse.EROFS }

// Link is refused.
func (f *FS) Link(<-chan struct{}, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Symlink is refused.
func (f *FS) Symlink(<-chan struct{}, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Create is refused.
func (f *FS) Create(<-chan struct{}, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}

// Tmpfile is refused.
func (f *FS) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status { return fuse.EROFS }

// Write is refused.
func (f *FS) Write(<-chan struct{}, *fuse.WriteIn, []byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

// Writev is refused.
func (f *FS) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

// CopyFileRange is refused.
func (f *FS) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

// Fallocate is refused.
func (f *FS) Fallocate(<-chan struct{}, *fuse.FallocateIn) fuse.Status { return fuse.EROFS }

// Fsync has nothing to do.
func (f *FS) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// FsyncDir has nothing to do.
func (f *FS) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// Ioctl knows two: what readers announce, and the batches for which they ask. CPython asks each file whether it is a terminal.
func (f *FS) Ioctl(_ <-chan struct{}, in *fuse.IoctlIn, argument []byte, out *fuse.IoctlOut, reply []byte) fuse.Status {
	if size, ok := askedSize(in.Cmd); ok {
		return f.ask(in, size, argument, out, reply)
	}
	size, ok := ahead.CommandSize(in.Cmd)
	if !ok || f.ahead == nil {
		return enotty
	}
	if size != len(argument) || size != len(reply) {
		return fuse.EINVAL
	}
	if err := f.ahead.Take(argument); err != nil {
		out.Result = 1
		copy(reply[:max(size-1, 0)], err.Error())
	}
	return fuse.OK
}
