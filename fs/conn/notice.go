package conn

import (
	"errors"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The numbers of notices.
const (
	noticeInode  = 2
	noticeEntry  = 3
	noticeResend = 7
)

// EntryNotify makes the kernel forget a name of a directory. Like every notice it must not
// be sent by a goroutine that answers a request: the kernel holds the directory locked
// while it waits for the answer. What the kernel does not know is [fuse.ENOENT].
func (c *Conn) EntryNotify(parent uint64, name string) fuse.Status {
	out := fuse.NotifyInvalEntryOut{Parent: parent, NameLen: uint32(len(name))}
	return c.notify(noticeEntry, bytesOf(&out), append([]byte(name), 0))
}

// InodeNotify makes the kernel forget the attributes of a node, and its pages from an
// offset on: none if it is negative, all that follow if length is 0.
func (c *Conn) InodeNotify(node uint64, off, length int64) fuse.Status {
	out := fuse.NotifyInvalInodeOut{Ino: node, Off: off, Length: length}
	return c.notify(noticeInode, bytesOf(&out))
}

// ResendNotify makes the kernel send each request again that was read and not answered: by
// a process that has died, and from which this one took the connection over. Linux 6.9;
// [fuse.EINVAL] before that.
func (c *Conn) ResendNotify() fuse.Status { return c.notify(noticeResend) }

// notify writes a notice: a reply to request 0, of which the status is the kind.
func (c *Conn) notify(kind int32, parts ...[]byte) fuse.Status {
	h := fuse.OutHeader{Status: kind, Length: uint32(outHeaderSize)}
	for _, p := range parts {
		h.Length += uint32(len(p))
	}
	vec := append([][]byte{bytesOf(&h)}, parts...)
	return status(c.use(func(fd int) error {
		_, err := retry(func() (int, error) { return unix.Writev(fd, vec) })
		return err
	}))
}

func status(err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return fuse.Status(errno)
	}
	return fuse.Status(unix.ENODEV) // it is closed
}

const (
	ioctlBackingOpen  = 0x4010e501
	ioctlBackingClose = 0x4004e502
)

// RegisterBacking makes a file known as a backing file and returns its number. It needs
// CAP_SYS_ADMIN.
func (c *Conn) RegisterBacking(file int) (id int32, err error) {
	m := fuse.BackingMap{Fd: int32(file)}
	err = c.ioctl(ioctlBackingOpen, unsafe.Pointer(&m), &id)
	return id, err
}

// UnregisterBacking takes that back.
func (c *Conn) UnregisterBacking(id int32) error {
	return c.ioctl(ioctlBackingClose, unsafe.Pointer(&id), new(int32))
}

func (c *Conn) ioctl(request uintptr, arg unsafe.Pointer, result *int32) error {
	return c.use(func(fd int) error {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		if errno != 0 {
			return errno
		}
		*result = int32(n)
		return nil
	})
}
