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
		_, err := retry(func() (int, error) { return c.calls.writev(fd, vec) })
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

// The opcodes that this package must know.
const (
	opLookup      = 1
	opForget      = 2
	opGetAttr     = 3
	opOpen        = 14
	opRead        = 15
	opRelease     = 18
	opGetXAttr    = 22
	opListXAttr   = 23
	opInit        = 26
	opReadDir     = 28
	opReleaseDir  = 29
	opInterrupt   = 36
	opIoctl       = 39
	opBatchForget = 42
	opReadDirPlus = 44
)

const (
	inHeaderSize  = int(unsafe.Sizeof(fuse.InHeader{}))
	outHeaderSize = int(unsafe.Sizeof(fuse.OutHeader{}))
	// maxPayload is the largest payload of a reply: the most that Linux asks for at once.
	maxPayload = 1 << 20
	// maxRequest is more than any request has: a read-only mount is sent names, and of
	// what is written the attempt.
	maxRequest = 128 << 10
	// maxIoctl is the largest argument of an ioctl: its size has 14 bits.
	maxIoctl = 1<<14 - 1
	// maxWrite is what the kernel is told that it may write at once. Its buffers need not
	// be larger than that, and nothing is ever written.
	maxWrite = 4096

	// resent is set in the unique number of a request that is sent again.
	resent = 1 << 63

	rootNode = fuse.FUSE_ROOT_ID
	// pollName is a name of the root, and pollNode its node, for which go-fuse answers
	// itself: see fs.Mountpoint.
	pollName = ".go-fuse-epoll-hack"
	pollNode = ^uint64(0)
)

// as views the beginning of b as a T, or returns nil if b is too short.
func as[T any](b []byte) *T {
	if len(b) < int(unsafe.Sizeof(*new(T))) {
		return nil
	}
	return (*T)(unsafe.Pointer(unsafe.SliceData(b)))
}

// bytesOf views a T as bytes.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
