package conn

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// simKernel is the kernel's side of a connection whose daemons die. It does what Linux does from 6.9 on: a request that a dead
// daemon read is sent again when the next one asks for it, and only then.
type simKernel struct {
	s *testenv.Sim

	mu         sync.Mutex
	changed    *sync.Cond
	next       uint64
	pending    []*simRequest
	interrupts []*simRequest // to be told
	read       map[uint64]*simRequest
	lookups    int // of the root that are not answered: a notice of a name waits for them
	notices    int // that wait: further LOOKUPs wait for these
	answered   int
	over       bool // the mount has gone
}

// simRequest is a request of a client.
type simRequest struct {
	op, node    uint64
	unique      uint64
	body        []byte
	interrupted bool
	answers     int
	status      int32
	reply       []byte
}

// simDaemon is a process that serves the connection.
type simDaemon struct {
	k    *simKernel
	dead bool // guarded by k.mu
}

func (k *simKernel) send(op uint64, node uint64, body []byte) *simRequest {
	k.next += 2
	r := &simRequest{op: op, node: node, unique: k.next, body: body}
	k.pending = append(k.pending, r)
	k.changed.Broadcast()
	return r
}

// call sends a request and waits for its answer. A signal may come meanwhile.
func (k *simKernel) call(op uint64, node uint64, body []byte, signal bool) *simRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	for op == opLookup && k.notices > 0 {
		k.changed.Wait()
	}
	r := k.send(op, node, body)
	if op == opLookup {
		k.lookups++
		defer func() { k.lookups--; k.changed.Broadcast() }()
	}
	if signal {
		k.mu.Unlock()
		k.s.Sleep(3)
		k.mu.Lock()
		if i := slices.Index(k.pending, r); i >= 0 && r.unique&resent == 0 {
			k.pending = slices.Delete(k.pending, i, i+1)
			r.answers, r.status = 1, -int32(unix.EINTR)
		} else if r.answers == 0 {
			r.interrupted = true
			if i < 0 { // else it is told when the request has been read
				k.interrupts = append(k.interrupts, r)
				k.changed.Broadcast()
			}
		}
	}
	for r.answers == 0 {
		k.changed.Wait()
	}
	return r
}

func (d *simDaemon) read(_ int, b []byte) (int, error) {
	k := d.k
	k.s.Yield()
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		var r *simRequest
		switch {
		case k.over:
			return 0, unix.ENODEV
		case d.dead: // a process that is gone reads nothing
			k.changed.Wait()
			continue
		case len(k.interrupts) > 0:
			of := k.interrupts[0]
			k.interrupts = k.interrupts[1:]
			r = &simRequest{op: opInterrupt, unique: of.unique | 1, body: bytesOf(&of.unique)}
		case len(k.pending) > 0:
			r, k.pending = k.pending[0], k.pending[1:]
			if r.op != opForget {
				k.read[r.unique] = r
			}
			if r.interrupted {
				k.interrupts = append(k.interrupts, r)
				k.changed.Broadcast()
			}
		default:
			k.changed.Wait()
			continue
		}
		h := fuse.InHeader{Length: uint32(inHeaderSize + len(r.body)), Opcode: uint32(r.op), Unique: r.unique, NodeId: r.node}
		return copy(b, slices.Concat(bytesOf(&h), r.body)), nil
	}
}

func (d *simDaemon) write(_ int, b []byte) (int, error) {
	k := d.k
	k.s.Yield() // the daemon may die before it
	k.mu.Lock()
	defer k.mu.Unlock()
	h := as[fuse.OutHeader](b)
	r := k.read[h.Unique]
	switch {
	case d.dead:
		return 0, unix.ENODEV
	case int(h.Length) != len(b):
		k.s.Errorf("a reply of %d bytes says that it has %d", len(b), h.Length)
		return 0, unix.EINVAL
	case h.Unique == 0 && h.Status == 3: // FUSE_NOTIFY_INVAL_ENTRY
		k.notices++
		for k.lookups > 0 { // no signal wakes it: also if the daemon is killed
			k.changed.Wait()
		}
		k.notices--
		k.changed.Broadcast()
	case h.Unique == 0 && h.Status == 7: // FUSE_NOTIFY_RESEND
		var again []*simRequest
		for unique, r := range k.read {
			delete(k.read, unique)
			r.unique |= resent
			again = append(again, r)
		}
		slices.SortFunc(again, func(a, b *simRequest) int { return int(int64(a.unique - b.unique)) })
		k.pending = append(again, k.pending...)
		k.changed.Broadcast()
	case r == nil:
		k.s.Errorf("an answer to request %x, which nobody sent or which was answered", h.Unique)
		return 0, unix.ENOENT
	default:
		delete(k.read, h.Unique)
		r.answers++
		k.answered++
		r.status, r.reply = h.Status, bytes.Clone(b[outHeaderSize:])
		k.changed.Broadcast()
	}
	return len(b), nil
}

func (d *simDaemon) writev(fd int, parts [][]byte) (int, error) {
	return d.write(fd, slices.Concat(parts...))
}

func (d *simDaemon) kill() {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	d.dead = true
	d.k.changed.Broadcast()
}

// simFS answers after a while.
type simFS struct {
	*testFS
	s    *testenv.Sim
	over chan struct{} // closed when all daemons are gone
	busy atomic.Int32  // calls under way
	left atomic.Bool   // Leave has returned: what answers may be closed
}

// wait is how long an answer takes.
func (f *simFS) wait() {
	if f.left.Load() {
		f.s.Error("a daemon that has left answers a request")
	}
	f.busy.Add(1)
	f.s.Sleep(2)
}

func (f *simFS) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.wait()
	defer f.busy.Add(-1)
	if name == "forever" {
		select {
		case <-cancel:
		case <-f.over:
		}
		return fuse.EINTR
	}
	return f.testFS.Lookup(cancel, h, name, out)
}

func (f *simFS) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.wait()
	defer f.busy.Add(-1)
	return f.testFS.Read(cancel, in, buf)
}

// client looks names up, and reads.
func (k *simKernel) client(content []byte) {
	for range 6 {
		k.s.Sleep(2)
		switch k.s.IntN(6) {
		case 0:
			if r := k.call(opLookup, rootNode, []byte("forever\x00"), true); r.status != -int32(unix.EINTR) {
				k.s.Errorf("a lookup that a signal ended: status %d", r.status)
			}
		case 1:
			k.mu.Lock()
			k.send(opForget, 2, bytesOf(&fuse.ForgetIn{}))
			k.mu.Unlock()
		case 2, 3:
			name := fmt.Sprint(k.s.IntN(10))
			r := k.call(opLookup, rootNode, []byte(name+"\x00"), k.s.OneIn(4))
			if out := as[fuse.EntryOut](r.reply); r.status != 0 || out == nil || out.NodeId != 2+uint64(name[0]) {
				if r.status != -int32(unix.EINTR) || !r.interrupted && r.reply != nil {
					k.s.Errorf("lookup of %s: status %d, %+v", name, r.status, out)
				}
			}
		default:
			off, n := k.s.IntN(fileSize), 1+k.s.IntN(2000)
			in := fuse.ReadIn{Offset: uint64(off), Size: uint32(n)}
			r := k.call(opRead, 50, bytesOf(&in)[inHeaderSize:], false)
			if want := content[off:min(off+n, fileSize)]; r.status != 0 || !bytes.Equal(r.reply, want) {
				k.s.Errorf("read of %d bytes at %d: status %d, %d bytes", n, off, r.status, len(r.reply))
			}
		}
	}
}

// TestSimulation: daemons serve a connection one after the other. They are killed at any time, with requests unread, read and
// half answered and notices under way, or leave to another program. Each request gets one answer, which is its own.
func TestSimulation(t *testing.T) {
	shared := newTestFS()
	null, err := os.Open(os.DevNull)
	testenv.Must(t, err)
	defer null.Close()
	testenv.Simulate(t, 100, func(s *testenv.Sim) {
		k := &simKernel{s: s, read: map[uint64]*simRequest{}}
		k.changed = sync.NewCond(&k.mu)
		in := fuse.InitIn{Major: 7, Minor: 40, MaxReadAhead: 1 << 17, Flags: math.MaxUint32 &^ (1 << 30), Flags2: math.MaxUint32}
		k.mu.Lock()
		k.send(opInit, 0, bytesOf(&in)[inHeaderSize:])
		k.mu.Unlock()
		var handshake *Handshake // that the journal remembers
		var all sync.WaitGroup
		over := make(chan struct{})
		var told chan struct{} // closed when a daemon has sent its notices
		// serve is the life of a daemon.
		serve := func() (d *simDaemon, f *simFS, c *Conn) {
			d = &simDaemon{k: k}
			fd, err := unix.Dup(int(null.Fd()))
			testenv.Must(s.T, err)
			f = &simFS{testFS: &testFS{RawFileSystem: shared.RawFileSystem, content: shared.content, kept: s.OneIn(2)}, s: s, over: over}
			c, err = start(fd, calls{d.read, d.write, d.writev}, f, Options{Handshake: handshake})
			testenv.Must(s.T, err)
			if handshake == nil {
				h := c.Handshake()
				handshake = &h
			} else if status := c.ResendNotify(); status != fuse.OK {
				s.Errorf("resend: %v", status)
			}
			all.Go(c.Serve)
			done := make(chan struct{})
			told = done
			all.Go(func() {
				defer close(done)
				for range 3 {
					s.Sleep(3)
					c.EntryNotify(rootNode, "1") // from another goroutine than those that answer
				}
			})
			return d, f, c
		}
		d, f, c := serve()
		clients := make(chan struct{})
		for range 5 {
			s.Go(func() { k.client(shared.content) })
		}
		go func() { s.Wait(); close(clients) }()
		for range 4 {
			s.Sleep(4)
			if s.OneIn(4) {
				<-told // who waits for a lock does not wait for synctest
				left := make(chan struct{})
				leaving := c
				all.Go(func() { leaving.Leave(); close(left) })
				select {
				case <-left:
					if f.left.Store(true); f.busy.Load() > 0 {
						s.Error("a daemon has left, and still answers a request")
					}
				case <-time.After(30 * time.Second): // nobody reads the signal for a request of the old daemon
				}
			}
			s.Sleep(1)
			d.kill()
			s.Sleep(3)
			d, f, c = serve()
		}
		<-clients
		k.mu.Lock()
		k.over = true
		k.changed.Broadcast()
		k.mu.Unlock()
		close(over)
		all.Wait()
		if n := len(k.read) + len(k.pending); k.answered == 0 || n > 0 && slices.ContainsFunc(k.pending, func(r *simRequest) bool { return r.op != opForget }) {
			s.Errorf("%d requests are answered, and %d are left", k.answered, n)
		}
	})
}
