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

// ReadFile reads a file of a view as the kernel would, for those who ask the daemon
// without it. The path is relative to the mount: "l3/cats/7.l3". There are no links
// to follow. room is told the size before memory is taken for it, and may refuse.
func (f *FS) ReadFile(ctx context.Context, path string, room func(size int64) error) ([]byte, error) {
	var b []byte
	var status fuse.Status
	for range 3 {
		entry, s := f.walkTo(ctx, path)
		if s != fuse.OK {
			return nil, pathError(ctx, path, s)
		}
		if entry.Mode&unix.S_IFMT != unix.S_IFREG {
			return nil, fmt.Errorf("%s is not a file", path)
		}
		if err := room(int64(entry.Size)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		b = make([]byte, entry.Size)
		// A file that changed since it was looked up is looked up again.
		if status = f.readWhole(ctx, entry.NodeId, b); status != estale {
			break
		}
	}
	if status != fuse.OK {
		return nil, pathError(ctx, path, status)
	}
	return b, nil
}

// walkTo looks up each name of a path.
func (f *FS) walkTo(ctx context.Context, path string) (entry fuse.EntryOut, status fuse.Status) {
	entry.NodeId, entry.Mode = rootNode, unix.S_IFDIR
	for name := range strings.SplitSeq(path, "/") {
		if entry.Mode&unix.S_IFMT != unix.S_IFDIR {
			return entry, fuse.ENOTDIR // the kernel would not ask
		}
		header := fuse.InHeader{NodeId: entry.NodeId}
		entry = fuse.EntryOut{}
		if status = f.Lookup(ctx.Done(), &header, name, &entry); status != fuse.OK {
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
