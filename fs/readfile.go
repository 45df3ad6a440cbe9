package fs

import (
	"context"
	"fmt"
	iofs "io/fs"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// ReadFile reads a file of a view as the kernel would, for programs that ask the daemon
// and not the kernel. The path is relative to the mount: "l3/cats/7.l3". There are no links
// to follow. room is told the size before memory is taken for it, and may refuse.
func (f *FS) ReadFile(ctx context.Context, path string, room func(size int64) error) ([]byte, error) {
	for range 3 {
		b, status, err := f.readPath(ctx, path, room)
		switch {
		case err != nil:
			return nil, err
		case status == fuse.OK:
			return b, nil
		case status != estale:
			return nil, pathError(ctx, path, status)
		}
		// It changed since it was looked up.
	}
	return nil, pathError(ctx, path, estale)
}

func (f *FS) readPath(ctx context.Context, path string, room func(size int64) error) ([]byte, fuse.Status, error) {
	entry, status := f.walkTo(ctx, path)
	if status != fuse.OK {
		return nil, fuse.OK, pathError(ctx, path, status)
	}
	defer f.Forget(entry.NodeId, 1)
	if entry.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fuse.OK, fmt.Errorf("%s is not a file", path)
	}
	if err := room(int64(entry.Size)); err != nil {
		return nil, fuse.OK, fmt.Errorf("%s: %w", path, err)
	}
	b := make([]byte, entry.Size)
	return b, f.readWhole(ctx, entry.NodeId, b), nil
}

// walkTo looks up each name of a path. What it returns has to be forgotten.
func (f *FS) walkTo(ctx context.Context, path string) (entry fuse.EntryOut, status fuse.Status) {
	entry.NodeId, entry.Mode = rootNode, unix.S_IFDIR
	for name := range strings.SplitSeq(path, "/") {
		if entry.Mode&unix.S_IFMT != unix.S_IFDIR {
			return entry, fuse.ENOTDIR // the kernel would not ask
		}
		header := fuse.InHeader{NodeId: entry.NodeId}
		entry = fuse.EntryOut{}
		status = f.Lookup(ctx.Done(), &header, name, &entry)
		f.Forget(header.NodeId, 1)
		if status != fuse.OK {
			return entry, status
		}
	}
	return entry, fuse.OK
}

// readWhole fills b with a file of that size.
func (f *FS) readWhole(ctx context.Context, node uint64, b []byte) fuse.Status {
	for at := 0; at < len(b); {
		in := fuse.ReadIn{InHeader: fuse.InHeader{NodeId: node}, Offset: uint64(at), Size: uint32(min(len(b)-at, maxReadFile))}
		part := b[at : at+int(in.Size)]
		r, status := f.Read(ctx.Done(), &in, part)
		if status != fuse.OK {
			return status
		}
		got, status := r.Bytes(part)
		n := copy(part, got) // onto itself, where it was read there
		r.Done()
		if status != fuse.OK {
			return status
		}
		if n == 0 {
			return fuse.EIO // shorter than it said
		}
		at += n
	}
	return fuse.OK
}

// maxReadFile is how many bytes are read at once: requests count them in 32 bits.
const maxReadFile = 1 << 30

func pathError(ctx context.Context, path string, status fuse.Status) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return &iofs.PathError{Op: "read", Path: path, Err: syscall.Errno(status)}
}
