package conn

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

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
