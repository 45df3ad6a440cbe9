package conn

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// queues are those of a connection over io_uring: the kernel puts a request into the queue
// of the processor on which its caller runs.
type queues struct {
	c       *Conn
	all     []*queue
	payload int // bytes of an entry's payload
	threads sync.WaitGroup
	// begin is closed when the handshake is over. Threads that were made by then wait for
	// it, and then report whether they serve.
	begin   chan struct{}
	stop    bool // written before begin is closed
	reports chan error
	count   atomic.Int32 // threads
}

// queue is one of them. Each of its threads has an entry: a place for one request. The
// thread answers the request itself, so that an entry is busy as long as the request is;
// idle threads wait for what comes meanwhile. The kernel prefers the entry that
// was used last, so that idle threads stay asleep, and their memory is never touched.
//
// A request that finds no free entry waits until some entry is committed, which is then
// given that request at once. That another entry is registered does not help it. So as long
// as requests may wait and there is a free entry, the queue is nudged: a request of our own
// is answered at once, and its entry is given one that waits.
type queue struct {
	*queues
	id       int
	idle     atomic.Int32 // threads that wait for a request
	starting atomic.Bool  // a thread is about to wait
	// dry counts how often requests may have begun to wait for an entry; empty is what it was
	// when a commit last found none that waits. Where they differ, one may wait.
	dry, empty atomic.Uint32
	made       atomic.Int32 // threads, ever
}

const (
	// idleThreads is how many threads of a queue wait, once it is used.
	idleThreads = 2
	// maxThreads bounds those of all queues. More requests than that wait in the kernel.
	maxThreads = 4096
	// keptPayload is how much of its payload a thread beyond the first ones keeps in memory.
	keptPayload = 64 << 10
	// nudgeAfter is how long a commit is waited for that makes a nudge needless.
	nudgeAfter = 5 * time.Millisecond

	commandRegister = 1
	commandCommit   = 2
)

// keptBytes bounds the memory of payloads that threads keep between two requests, all queues
// together. The first idleThreads+1 threads of a queue keep theirs in any case. The others give it
// back at each reply, which costs a third of a read.
var keptBytes = 64 << 20

// entryHeaders is struct fuse_uring_req_header.
type entryHeaders struct {
	header   [128]byte // of the request, then of the reply
	op       [128]byte // what belongs to the opcode
	flags    uint64
	commitID uint64
	payload  uint32 // bytes in use
	_        uint32
	_        uint64
}

// entryMemory is the first page of an entry; the payload follows.
type entryMemory struct {
	headers entryHeaders
	vec     [2]unix.Iovec
}

// newQueues makes a thread with a ring for each processor that there may ever be. Nothing
// is registered yet, so that nothing is lost where it is not permitted.
func newQueues(c *Conn) (*queues, error) {
	n, err := processors()
	if err != nil {
		return nil, err
	}
	s := &queues{c: c, begin: make(chan struct{}), reports: make(chan error)}
	for i := range n {
		s.all = append(s.all, &queue{queues: s, id: i})
	}
	for _, q := range s.all {
		q.start(s.begin)
	}
	if err := s.collect(); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// collect waits for a report of a thread of each queue.
func (s *queues) collect() error {
	var errs []error
	for range s.all {
		errs = append(errs, <-s.reports)
	}
	// They all have the same cause.
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// end ends threads that do not serve yet. Those that do end with the mount.
func (s *queues) end() {
	if s.payload == 0 {
		s.stop = true
		close(s.begin)
		s.threads.Wait()
	}
}

// serve registers a first entry with each queue. From the last one on requests come.
func (s *queues) serve(out *fuse.InitOut) error {
	s.payload = max(8192, int(out.MaxWrite), int(out.MaxPages)*os.Getpagesize())
	close(s.begin)
	return s.collect()
}

// processors returns how many there may be. The kernel counts those that are off-line.
func processors() (int, error) {
	const file = "/sys/devices/system/cpu/possible"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || b < a {
			return 0, fmt.Errorf("%s: %q", file, text)
		}
		n += b - a + 1
	}
	return n, nil
}

// start starts a thread. If begin is not nil, the thread reports its ring, waits for begin,
// and reports again when it waits for requests.
func (q *queue) start(begin chan struct{}) {
	q.threads.Add(1)
	q.count.Add(1)
	go func() {
		defer q.threads.Done()
		defer q.count.Add(-1)
		// Never unlocked: the thread ends with this function.
		runtime.LockOSThread()
		// The thread is not bound to the processor of the queue: reading files would gain a
		// tenth, and pictures that are made would wait for one processor while another idles.
		r, err := newRing()
		if begin != nil {
			q.reports <- err
			<-begin
		}
		if err == nil {
			defer r.close()
			if q.stop {
				return
			}
			err = q.thread(r, begin != nil)
		}
		if err != nil {
			q.c.log.Warn("a thread of io_uring ends", "queue", q.id, "err", err)
		}
	}()
}

// grow starts a thread where too few wait.
func (q *queue) grow() {
	if q.idle.Load() < idleThreads && q.count.Load() < maxThreads && q.starting.CompareAndSwap(false, true) {
		q.start(nil)
	}
}

// waits reports whether requests may wait for an entry.
func (q *queue) waits() bool { return q.dry.Load() != q.empty.Load() }

// nudge makes a request of the queue after a while, if one may still wait for an entry then
// and there is one. It may come to wait itself, where others were quicker; then all entries
// are taken, and the thread that is started for that nudges again.
//
// It looks at the mount, which is busy meanwhile. Where nothing has been committed for that
// long, it is busy in any case.
func (q *queue) nudge(after time.Duration) {
	if q.c.touch == nil || !q.waits() {
		return
	}
	time.AfterFunc(after, func() {
		idle := q.idle.Load()
		if !q.waits() || idle <= 0 || idle >= q.made.Load() {
			return // with all of them idle, none waits
		}
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		var processor unix.CPUSet
		processor.Set(q.id)
		err := unix.SchedSetaffinity(0, &processor)
		if err == nil {
			err = q.c.touch()
		}
		if err != nil {
			q.c.log.Debug("requests of a processor may wait for others", "processor", q.id, "cause", err)
		}
	})
}

// thread registers an entry and serves it until the connection ends.
func (q *queue) thread(r *ring, report bool) error {
	memory, err := unix.Mmap(-1, 0, os.Getpagesize()+q.payload, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		defer func() { _ = unix.Munmap(memory) }()
		first := as[entryMemory](memory)
		e := &entry{q: q, extra: int(q.made.Add(1)) > max(idleThreads+1, keptBytes/q.payload/len(q.all)), ring: r, memory: first, headers: &first.headers, payload: memory[os.Getpagesize():]}
		err = e.register()
		if err == nil {
			q.idle.Add(1)
			q.starting.Store(false)
			if report {
				q.reports <- nil
			} else {
				// The entries before it may all have been taken by the kernel, and their
				// threads not know yet.
				q.dry.Add(1)
				q.nudge(nudgeAfter)
				q.grow()
			}
			return e.serve()
		}
	}
	q.starting.Store(false)
	if report {
		q.reports <- err
		return nil
	}
	if errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED) {
		return nil
	}
	return err
}

// entry is a place for one request.
type entry struct {
	request
	q       *queue
	extra   bool // it is for bursts
	ring    *ring
	memory  *entryMemory
	headers *entryHeaders
	payload []byte
	buf     []byte // the request in one piece
}

// command fills in a command of fuse.
func (e *entry) command(what uint32) *submission {
	s := e.ring.next()
	*s = submission{opcode: opUringCmd, fd: int32(e.q.c.fd), command: what, queue: uint16(e.q.id)}
	return s
}

// register gives the kernel the place.
func (e *entry) register() error {
	vec := &e.memory.vec
	vec[0].Base, vec[1].Base = (*byte)(unsafe.Pointer(&e.memory.headers)), unsafe.SliceData(e.payload)
	vec[0].SetLen(int(unsafe.Sizeof(e.memory.headers)))
	vec[1].SetLen(len(e.payload))
	s := e.command(commandRegister)
	s.address, s.length = uint64(uintptr(unsafe.Pointer(vec))), uint32(len(vec))
	if err := e.ring.submit(false); err != nil {
		return err
	}
	if result, failed := e.ring.finish(); failed && result < 0 {
		return fmt.Errorf("io_uring of the mount: %w", unix.Errno(-result))
	}
	e.cancel = make(chan struct{})
	e.out = as[fuse.OutHeader](e.headers.header[:])
	e.room = func(n int) []byte { return e.payload[:min(n, len(e.payload))] }
	e.copies = true
	e.buf = make([]byte, 0, 1024)
	return nil
}

// serve answers requests until the connection ends.
func (e *entry) serve() error {
	defer e.q.idle.Add(-1)
	waited := false // the request had waited for an entry
	for {
		result, ok := e.ring.finish()
		if !ok {
			if err := e.ring.enter(0, true); err != nil {
				return err
			}
			continue
		}
		switch unix.Errno(-result) {
		case 0:
		case unix.ENOTCONN, unix.ECONNABORTED, unix.ECANCELED, unix.ENODEV:
			return nil
		default:
			return unix.Errno(-result)
		}
		if e.q.idle.Add(-1) == 0 {
			e.q.dry.Add(1)
		}
		e.q.grow()
		if waited {
			e.q.nudge(0) // others may wait behind it
		}
		e.take()
		e.q.c.answer(&e.request)
		if e.silent {
			e.end(fuse.OK, nil) // each request of an entry has to be answered
		}
		e.q.idle.Add(1)
		e.headers.payload = uint32(len(e.reply))
		e.command(commandCommit).commitID = e.headers.commitID
		dry, waits := e.q.dry.Load(), e.q.waits()
		waited = false
		shrink := e.extra && len(e.reply) > keptPayload
		if err := e.ring.submit(!shrink && !waits); err != nil {
			return err
		}
		// The kernel has the reply. It brings no request before the thread waits, unless one
		// waited already.
		if shrink || waits {
			if waited = e.ring.finished(); !waited {
				e.q.empty.Store(dry)
				if shrink {
					_ = unix.Madvise(e.payload, unix.MADV_DONTNEED)
				}
			}
		}
	}
}

// take puts the request together: its names lie where the reply will.
func (e *entry) take() {
	size := int(as[fuse.InHeader](e.headers.header[:]).Length)
	names := e.payload[:min(int(e.headers.payload), len(e.payload))]
	fixed := min(max(size-inHeaderSize-len(names), 0), len(e.headers.op))
	e.buf = append(e.buf[:0], e.headers.header[:inHeaderSize]...)
	e.buf = append(e.buf, e.headers.op[:fixed]...)
	e.in = append(e.buf, names...)
	e.buf = e.in
}
