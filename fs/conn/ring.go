package conn

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is an io_uring with room for one entry. Only the thread that made it uses it: with
// that promise (SINGLE_ISSUER, DEFER_TASKRUN) the kernel delivers requests when the thread
// waits for them, and at no other time.
type ring struct {
	fd       int
	memory   []byte // of both queues
	entries  []byte // of the submission queue
	sqTail   *uint32
	cqHead   *uint32
	cqTail   *uint32
	cqMask   uint32
	cqEntry0 unsafe.Pointer // of the completion queue
	sqMask   uint32
}

// The parts of io_uring's interface that are used here, by their names in
// linux/io_uring.h.
const (
	setupSQE128       = 1 << 10
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	setupNoSQArray    = 1 << 16
	offSQRing         = 0
	offSQEs           = 0x10000000
	opUringCmd        = 46
	enterGetEvents    = 1
	sqeSize           = 128
)

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFd uint32
	_                                                                      [3]uint32
	sq                                                                     struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// submission is struct io_uring_sqe of 128 bytes, as commands to a file use it, and in it
// struct fuse_uring_cmd_req.
type submission struct {
	opcode, flags uint8
	_             uint16
	fd            int32
	command       uint32
	_             uint32
	address       uint64
	length        uint32
	_             uint32
	userData      uint64
	_             [8]byte

	_        uint64 // flags of fuse
	commitID uint64
	queue    uint16
	_        [62]byte
}

// completion is struct io_uring_cqe.
type completion struct {
	userData uint64
	result   int32
	flags    uint32
}

func newRing() (_ *ring, err error) {
	p := ringParams{flags: setupSQE128 | setupSingleIssuer | setupDeferTaskrun | setupNoSQArray}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	r := &ring{fd: int(fd)}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	size := int(p.cq.cqes) + int(p.cqEntries)*int(unsafe.Sizeof(completion{}))
	if r.memory, err = unix.Mmap(r.fd, offSQRing, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, fmt.Errorf("memory of io_uring: %w", err)
	}
	if r.entries, err = unix.Mmap(r.fd, offSQEs, int(p.sqEntries)*sqeSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, fmt.Errorf("memory of io_uring: %w", err)
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.memory[off])) }
	r.sqTail, r.sqMask = word(p.sq.tail), *word(p.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.mask)
	r.cqEntry0 = unsafe.Pointer(&r.memory[p.cq.cqes])
	return r, nil
}

func (r *ring) close() {
	if r.entries != nil {
		_ = unix.Munmap(r.entries)
	}
	if r.memory != nil {
		_ = unix.Munmap(r.memory)
	}
	unix.Close(r.fd)
}

// next is the submission to be filled in.
func (r *ring) next() *submission {
	return (*submission)(unsafe.Pointer(&r.entries[(*r.sqTail&r.sqMask)*sqeSize]))
}

// submit hands over what was filled in. If wait, it then waits for a completion.
func (r *ring) submit(wait bool) error {
	atomic.AddUint32(r.sqTail, 1)
	return r.enter(1, wait)
}

func (r *ring) enter(submit uintptr, wait bool) error {
	var least, flags uintptr
	if wait {
		least, flags = 1, enterGetEvents
	}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), submit, least, flags, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return os.NewSyscallError("io_uring_enter", errno)
	}
	return nil
}

// finished reports whether there is a completion.
func (r *ring) finished() bool { return *r.cqHead != atomic.LoadUint32(r.cqTail) }

// finish takes a completion, if there is one.
func (r *ring) finish() (result int32, ok bool) {
	if !r.finished() {
		return 0, false
	}
	head := *r.cqHead
	c := (*completion)(unsafe.Add(r.cqEntry0, uintptr(head&r.cqMask)*unsafe.Sizeof(completion{})))
	result = c.result
	atomic.StoreUint32(r.cqHead, head+1)
	return result, true
}
