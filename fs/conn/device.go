package conn

import (
	"errors"
	"runtime"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// maxIdle is how many readers may wait for a request.
func maxIdle() int32 { return int32(min(max(runtime.GOMAXPROCS(0), 2), 16)) }

func newRequest() *request {
	r := &request{buf: make([]byte, maxRequest)}
	for i := 0; i < len(r.buf); i += pageSize {
		r.buf[i] = 1
	}
	r.cancel = make(chan struct{})
	r.out = &r.small.header
	return r
}

// pageSize is the least that there is. The kernel copies to and from memory that this
// process has touched without looking whether the process has been killed. Where it does
// look, it answers the request with EIO, and nobody can answer it again.
const pageSize = 4096

// touch has memory that the kernel is about to copy from where it can.
func touch(b []byte) (sum byte) {
	for i := 0; i < len(b); i += pageSize {
		sum |= b[i]
	}
	if len(b) > 0 {
		sum |= b[len(b)-1]
	}
	return sum
}

// buffer returns memory for n bytes of a reply.
func (r *request) buffer(n int) []byte {
	if n <= len(r.small.reply) {
		return r.small.reply[:n]
	}
	r.free()
	r.large, r.class = takeBuffer(n)
	return (*r.large)[:n]
}

// free gives the memory of the reply back.
func (r *request) free() {
	if r.large != nil {
		buffers[r.class].Put(r.large)
		r.large = nil
	}
}

// buffers for replies of up to 4 KiB << index.
var buffers [10]sync.Pool

func takeBuffer(n int) (b *[]byte, class int) {
	for 4096<<class < n {
		class++
	}
	if b, _ := buffers[class].Get().(*[]byte); b != nil {
		return b, class
	}
	made := make([]byte, 4096<<class)
	return &made, class
}

// readDevice is a reader.
func (c *Conn) readDevice() {
	defer c.readers.Done()
	r := c.requests.Get().(*request)
	defer c.requests.Put(r)
	for {
		if c.idle.Add(1) > c.maxIdle {
			c.idle.Add(-1)
			return
		}
		n, err := c.calls.read(c.fd, r.buf)
		c.busy.Add(1)
		left := c.idle.Add(-1)
		goOn := !c.leftToNext() && c.handle(r, n, err, left)
		c.busy.Add(-1)
		if !goOn || c.leaving.Load() {
			return
		}
	}
}

// leftToNext reports whether a request that was read has to be left to the next process,
// to which the kernel sends it again: what answers requests here may be closed by now.
func (c *Conn) leftToNext() bool { return c.leaving.Load() && c.agreed&fuse.CAP_HAS_RESEND != 0 }

// handle answers what was read, while so many other readers wait. It returns false where
// nothing more can be read.
func (c *Conn) handle(r *request, n int, err error, left int32) bool {
	switch {
	case err == nil:
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOENT): // ENOENT: the request was given up meanwhile
		return true
	default:
		if !errors.Is(err, unix.ENODEV) {
			c.log.Warn("reading requests of the kernel", "err", err)
		}
		c.inflight.interruptAll()
		c.onEnd()
		return false
	}
	r.in = r.buf[:n]
	if n < inHeaderSize {
		c.log.Warn("a request of the kernel is too short", "bytes", n)
		return true
	}
	op := r.header().Opcode
	// The kernel sends forgets without waiting for anything: one reader is enough.
	if left <= 0 && op != opForget && op != opBatchForget && !c.leaving.Load() {
		c.readers.Add(1)
		go c.readDevice()
	}
	if c.account == nil || op != opLookup && op != opOpen && op != opRead {
		c.answer(r)
		c.send(r)
		return true
	}
	began := c.account.Begin(r.header().Pid)
	c.answer(r)
	bytes, status := int(r.out.Length)-outHeaderSize, fuse.Status(-r.out.Status)
	c.send(r)
	c.answered(r.header(), began, bytes, status)
	return true
}

// send writes the reply.
func (c *Conn) send(r *request) {
	defer r.free()
	defer r.giveBack()
	if r.silent {
		return
	}
	var err error
	for {
		switch {
		case len(r.lent) > 0:
			vec := append(append(r.vec[:0], bytesOf(r.out)), r.lent...)
			for _, b := range r.lent {
				r.touched |= touch(b)
			}
			_, err = c.calls.writev(c.fd, vec)
		case r.large == nil:
			// The reply follows the header in memory.
			_, err = c.calls.write(c.fd, bytesOf(&r.small)[:r.out.Length])
		default:
			_, err = c.calls.writev(c.fd, append(r.vec[:0], bytesOf(r.out), r.reply))
		}
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	clear(r.vec[:])
	switch {
	case err == nil, errors.Is(err, unix.ENODEV):
	case errors.Is(err, unix.ENOENT):
		// Nobody waits for it: the mount has gone, or the caller of RELEASE with it.
		c.log.Debug("a reply came too late", "opcode", r.header().Opcode)
	default:
		c.log.Warn("writing a reply to the kernel", "opcode", r.header().Opcode, "err", err)
	}
}

// inflight are the requests that may be interrupted: those that wait for something.
type inflight struct {
	shards [16]inflightShard
}

type inflightShard struct {
	mu       sync.Mutex
	requests map[uint64]*request // by their unique number
	// early are the last requests of which the interrupt came first: it is read by
	// another goroutine. The kernel tells it once.
	early [8]uint64
	next  int
	ended bool
}

func (f *inflight) shard(unique uint64) *inflightShard {
	return &f.shards[unique>>1%uint64(len(f.shards))] // the lowest bit is always 0
}

func (f *inflight) add(r *request) {
	unique := r.header().Unique
	s := f.shard(unique)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.requests = map[uint64]*request{}
	}
	s.requests[unique] = r
	early := false
	for i, u := range s.early {
		if u == unique {
			s.early[i], early = 0, true
		}
	}
	if early || s.ended {
		r.interrupt()
	}
}

// remove makes the request fit for the next one.
func (f *inflight) remove(r *request) {
	unique := r.header().Unique
	s := f.shard(unique)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, unique)
	if r.interrupted {
		r.cancel, r.interrupted = make(chan struct{}), false
	}
}

// interrupt tells whoever answers a request that its caller got a signal.
func (f *inflight) interrupt(unique uint64) {
	s := f.shard(unique)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.requests[unique]; r != nil {
		r.interrupt()
		return
	}
	s.early[s.next%len(s.early)] = unique
	s.next++
}

// interruptAll is for the end of the connection: nobody waits for an answer any more.
func (f *inflight) interruptAll() {
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		s.ended = true
		for _, r := range s.requests {
			r.interrupt()
		}
		s.mu.Unlock()
	}
}

func (r *request) interrupt() {
	if !r.interrupted {
		r.interrupted = true
		close(r.cancel)
	}
}
