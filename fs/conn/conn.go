package conn

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/account"
)

// Conn is a connection to the kernel. Its methods may be used by many goroutines at once.
type Conn struct {
	fs       fuse.RawFileSystem
	protocol *fuse.ProtocolServer
	log      *slog.Logger
	onPanic  func(cause any)
	onEnd    func()
	guard    func(h *fuse.InHeader, name string, resent bool) (done func(), status fuse.Status)
	account  *account.Ledger
	answered func(h *fuse.InHeader, r account.Request, bytes int, status fuse.Status)

	handshake Handshake
	agreed    uint64

	inflight inflight

	// closing is held while the descriptor is used beside the readers.
	closing sync.RWMutex
	fd      int // -1: closed
	calls   calls

	readers  sync.WaitGroup
	idle     atomic.Int32 // readers that wait for a request
	busy     atomic.Int32 // readers that answer one
	leaving  atomic.Bool  // no more requests are read
	maxIdle  int32
	requests sync.Pool // of *request
}

// Handshake is INIT and the reply to it, as they went through the connection.
type Handshake struct {
	Request, Reply []byte
}

// Options of Start.
type Options struct {
	// Fuse says what the kernel is asked for in the handshake. Sizes of requests, Logger
	// and PanicHandler are set by Start.
	Fuse fuse.MountOptions
	// Handshake of a connection that is taken over; nil of one that begins.
	Handshake *Handshake
	// Agreed is called when both sides know what they can do, and before the first request
	// is answered; nil calls nothing.
	Agreed func(*Conn)
	Log    *slog.Logger // nil is silent
	// Guard is called before LOOKUP, OPEN and READ are answered, and what it returns
	// afterwards. A status other than OK is the answer. resent: the kernel sends the request
	// again, since a process that died left it unanswered. nil guards nothing.
	Guard func(h *fuse.InHeader, name string, resent bool) (done func(), status fuse.Status)
	// Account is told that LOOKUP, OPEN and READ begin; nil: nobody is. Answered comes when the reply was
	// sent, of which so many bytes are content. It must not allocate.
	Account  *account.Ledger
	Answered func(h *fuse.InHeader, r account.Request, bytes int, status fuse.Status)
	// OnPanic is told of a panic of the file system, in the goroutine that panicked. The
	// request is answered by EIO.
	OnPanic func(cause any)
	// OnEnd is called once, when no more requests come and those under way are interrupted; nil calls
	// nothing.
	OnEnd func()
}

// calls are the system calls that read requests, and write replies and notices. A simulation replaces them.
type calls struct {
	read   func(fd int, b []byte) (int, error)
	write  func(fd int, b []byte) (int, error)
	writev func(fd int, parts [][]byte) (int, error)
}

// Start begins to serve a connection: it has the handshake. Requests that come through
// /dev/fuse are answered by [Conn.Serve]. The descriptor is that of a /dev/fuse that is mounted. It belongs to the
// connection then, also after an error.
func Start(fd int, fs fuse.RawFileSystem, o Options) (*Conn, error) {
	return start(fd, calls{unix.Read, unix.Write, unix.Writev}, fs, o)
}

func start(fd int, by calls, fs fuse.RawFileSystem, o Options) (*Conn, error) {
	unix.CloseOnExec(fd)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{fs: fs, fd: fd, calls: by, log: o.Log, onPanic: o.OnPanic, onEnd: func() {}, guard: o.Guard, account: o.Account, answered: o.Answered, maxIdle: maxIdle()}
	if o.OnEnd != nil {
		c.onEnd = sync.OnceFunc(o.OnEnd)
	}
	c.requests.New = func() any { return newRequest() }
	opts := o.Fuse
	opts.MaxWrite, opts.MaxReadAhead = maxPayload, maxPayload
	opts.Logger, opts.PanicHandler = log.New(logWriter{o.Log}, "", 0), c.panicked
	opts.ExtraCapabilities |= fuse.CAP_HAS_RESEND | fuse.CAP_DIRECT_IO_ALLOW_MMAP
	err := c.readInit(o.Handshake)
	c.protocol = fuse.NewProtocolServer(fs, &opts)
	if err == nil {
		err = c.answerInit(o)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return c, nil
}

// readInit reads INIT, or takes it as it was read.
func (c *Conn) readInit(remembered *Handshake) error {
	if remembered != nil {
		c.handshake = *remembered
	} else {
		buf := make([]byte, maxRequest)
		n, err := retry(func() (int, error) { return c.calls.read(c.fd, buf) })
		if err != nil {
			return fmt.Errorf("the kernel sends no request: %w", err)
		}
		c.handshake.Request = slices.Clone(buf[:n])
	}
	if in := as[fuse.InHeader](c.handshake.Request); in == nil || in.Opcode != opInit {
		return errors.New("the first request of the kernel is not INIT")
	}
	return nil
}

// answerInit answers INIT, or takes the reply as it was.
func (c *Conn) answerInit(o Options) error {
	// In any case go-fuse has to know the request.
	reply := make([]byte, 512)
	n, status := c.protocol.HandleRequest([][]byte{c.handshake.Request}, [][]byte{reply})
	if status != fuse.OK || n < outHeaderSize {
		return fmt.Errorf("INIT: %v", status)
	}
	if o.Handshake == nil {
		c.handshake.Reply = reply[:n]
	}
	h := as[fuse.OutHeader](c.handshake.Reply)
	if h == nil {
		return errors.New("the remembered reply to INIT is cut short")
	}
	if h.Status != 0 {
		return fmt.Errorf("INIT: %v", fuse.Status(-h.Status))
	}
	// What an old kernel is not told is 0.
	var out fuse.InitOut
	copy(bytesOf(&out), c.handshake.Reply[outHeaderSize:])
	c.agreed = out.Flags64()
	if o.Agreed != nil {
		o.Agreed(c)
	}
	if o.Handshake != nil {
		return nil
	}
	// The kernel wants buffers for requests to be as large as what it may write.
	out.MaxWrite = maxWrite
	copy(c.handshake.Reply[outHeaderSize:], bytesOf(&out))
	if _, err := retry(func() (int, error) { return c.calls.write(c.fd, c.handshake.Reply) }); err != nil {
		return fmt.Errorf("INIT: %w", err)
	}
	return nil
}

// Handshake returns what a process needs that takes the connection over.
func (c *Conn) Handshake() Handshake { return c.handshake }

// Agreed returns the capabilities that both sides have, bits CAP_… of go-fuse.
func (c *Conn) Agreed() uint64 { return c.agreed }

// Serve answers requests until the connection ends: until what is mounted is unmounted, or
// the connection is aborted. When it returns, every request has been answered.
func (c *Conn) Serve() {
	c.readers.Add(1)
	c.readDevice()
	c.readers.Wait()
	c.closing.Lock()
	defer c.closing.Unlock()
	unix.Close(c.fd)
	c.fd = -1
}

// Leave stops reading requests, so that another process can go on, and returns when every
// request that was read before is answered. Serve does not return: a reader that waits for a
// request ends with the process. What it reads meanwhile is not answered.
func (c *Conn) Leave() {
	c.leaving.Store(true)
	for c.busy.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// use calls f with the descriptor, which is not closed meanwhile.
func (c *Conn) use(f func(fd int) error) error {
	c.closing.RLock()
	defer c.closing.RUnlock()
	if c.fd < 0 {
		return os.ErrClosed
	}
	return f(c.fd)
}

func (c *Conn) panicked(cause any) fuse.Status {
	if c.onPanic != nil {
		c.onPanic(cause)
	}
	return fuse.EIO
}

// retry repeats what a signal interrupts.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// logWriter passes the messages of go-fuse on.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.Warn("fuse: " + string(line[:max(0, len(line)-1)]))
	return len(line), nil
}
