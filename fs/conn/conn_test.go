package conn

import (
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// testFS has files "0" to "9" of the size fileSize in its root, and the names "wait…", which
// are there when the test says so, "forever" and "panic".
type testFS struct {
	fuse.RawFileSystem
	content []byte
	proceed chan struct{}
	waiting atomic.Int32
	kept    bool // reads are answered from where the content lies
}

const fileSize = 300_000

func newTestFS() *testFS {
	f := &testFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), proceed: make(chan struct{})}
	for i := range fileSize {
		f.content = append(f.content, byte(i>>8^i))
	}
	return f
}

func (f *testFS) attr(node uint64, a *fuse.Attr) {
	a.Ino, a.Mode, a.Nlink = node, unix.S_IFREG|0o444, 1
	if node == rootNode {
		a.Mode, a.Nlink = unix.S_IFDIR|0o555, 2
		return
	}
	a.Size = fileSize
}

func (f *testFS) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	switch {
	case name == "panic":
		panic("for the test")
	case strings.HasPrefix(name, "wait"):
		f.waiting.Add(1)
		select {
		case <-f.proceed:
		case <-cancel:
			return fuse.EINTR
		}
	case name == "forever":
		f.waiting.Add(1)
		<-cancel
		return fuse.EINTR
	case len(name) != 1:
		return fuse.ENOENT
	}
	out.NodeId = 2 + uint64(name[len(name)-1])
	f.attr(out.NodeId, &out.Attr)
	out.SetEntryTimeout(0)
	return fuse.OK
}

func (f *testFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

func (f *testFS) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.Fh, out.OpenFlags = in.NodeId, fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

func (f *testFS) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (f *testFS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	for i := in.Offset; i < 10; i++ {
		if !out.AddDirEntry(fuse.DirEntry{Name: fmt.Sprint(i), Mode: unix.S_IFREG, Ino: 2 + '0' + i, Off: i + 1}) {
			break
		}
	}
	return fuse.OK
}

func (f *testFS) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	for i := in.Offset; i < 10; i++ {
		// The node stays 0: the kernel has to look the name up.
		if out.AddDirLookupEntry(fuse.DirEntry{Name: fmt.Sprint(i), Mode: unix.S_IFREG, Ino: 2 + '0' + i, Off: i + 1}) == nil {
			break
		}
	}
	return fuse.OK
}

// lent is content that is sent from where it lies.
type lent struct {
	fuse.ReadResult
	b [1][]byte
}

func (l *lent) Slices() ([][]byte, fuse.Status)        { return l.b[:], fuse.OK }
func (l *lent) Bytes(buf []byte) ([]byte, fuse.Status) { return append(buf[:0], l.b[0]...), fuse.OK }
func (l *lent) Size() int                              { return len(l.b[0]) }
func (l *lent) Done()                                  {}

// copied is content that is in the buffer.
type copied int

func (c *copied) Bytes(buf []byte) ([]byte, fuse.Status) { return buf[:*c], fuse.OK }
func (c *copied) Size() int                              { return int(*c) }
func (c *copied) Done()                                  {}

func (f *testFS) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	at := min(int(in.Offset), fileSize)
	b := f.content[at:min(at+int(in.Size), fileSize)]
	if f.kept {
		return &lent{b: [1][]byte{b}}, fuse.OK
	}
	n := copied(copy(buf, b))
	return &n, fuse.OK
}

func (f *testFS) Ioctl(<-chan struct{}, *fuse.IoctlIn, []byte, *fuse.IoctlOut, []byte) fuse.Status {
	return fuse.Status(unix.ENOTTY)
}

// attachTest mounts and returns a descriptor of the connection, which the test does not own.
func attachTest(t testing.TB) (dir string, fd int) {
	t.Helper()
	testenv.Mounts(t)
	testenv.Root(t)
	dir = t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	testenv.Must(t, err)
	testenv.Must(t, unix.Mount("conn", dir, "fuse.pipefs", unix.MS_NODEV|unix.MS_NOSUID, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,max_read=%d", fd, maxPayload)))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, fd
}

// serve serves a connection until the test ends.
func serve(t testing.TB, dir string, fd int, fs fuse.RawFileSystem, o Options) *Conn {
	t.Helper()
	c, err := Start(fd, fs, o)
	testenv.Must(t, err)
	ended := make(chan struct{})
	go func() { c.Serve(); close(ended) }()
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH|unix.MNT_FORCE)
		<-ended
	})
	noPoll(t, dir)
	return c
}

// noPoll makes the kernel learn that there is no POLL, before Go's own use of files asks for
// it on the thread that should answer: see fs.Mountpoint.
func noPoll(t testing.TB, dir string) {
	t.Helper()
	fd, err := unix.Open(filepath.Join(dir, pollName), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	testenv.Must(t, err)
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	testenv.Must(t, err)
}

// TestServe: names, attributes, listings and bytes come through, however they are answered.
func TestServe(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprint("kept=", kept), func(t *testing.T) {
			f := newTestFS()
			f.kept = kept
			dir, fd := attachTest(t)
			c := serve(t, dir, fd, f, Options{})
			for _, name := range []string{"0", "7"} {
				b, err := os.ReadFile(filepath.Join(dir, name))
				testenv.Must(t, err)
				if !slices.Equal(b, f.content) {
					t.Fatalf("%s: other bytes than were sent", name)
				}
			}
			entries, err := os.ReadDir(dir)
			testenv.Must(t, err)
			if len(entries) != 10 {
				t.Errorf("%d entries", len(entries))
			}
			if _, err := os.Stat(filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			if s := c.EntryNotify(rootNode, "0"); !s.Ok() && s != fuse.ENOENT {
				t.Error("EntryNotify:", s)
			}
			if s := c.InodeNotify(rootNode, -1, 0); !s.Ok() {
				t.Error("InodeNotify:", s)
			}
			if c.Agreed()&fuse.CAP_MAX_PAGES == 0 {
				t.Error("nothing was agreed on")
			}
		})
	}
}

// TestPanic: a panic is EIO, and the next request is answered.
func TestPanic(t *testing.T) {
	dir, fd := attachTest(t)
	var causes atomic.Int32
	serve(t, dir, fd, newTestFS(), Options{OnPanic: func(any) { causes.Add(1) }})
	if _, err := os.Stat(filepath.Join(dir, "panic")); !errors.Is(err, unix.EIO) || causes.Load() != 1 {
		t.Error(err, causes.Load())
	}
	_, err := os.Stat(filepath.Join(dir, "1"))
	testenv.Must(t, err)
}

// TestTakeover: a connection goes on with the handshake that another process had. Here that
// process answered INIT and one request, read another one, and died.
func TestTakeover(t *testing.T) {
	dir, fd := attachTest(t)
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	testenv.Must(t, err)
	f := newTestFS()
	before, err := Start(fd, f, Options{})
	testenv.Must(t, err)
	if before.Agreed()&fuse.CAP_HAS_RESEND == 0 {
		t.Skip("this kernel does not send requests again (Linux 6.9)")
	}
	got := make(chan error)
	go func() {
		_, err := os.Stat(filepath.Join(dir, "5"))
		got <- err
	}()
	_, err = unix.Read(fd, make([]byte, maxRequest)) // and does not answer
	testenv.Must(t, err)
	h := before.Handshake()
	testenv.Must(t, unix.Close(fd))

	c := serve(t, dir, other, f, Options{Handshake: &h})
	if s := c.ResendNotify(); !s.Ok() {
		t.Fatal("ResendNotify:", s)
	}
	testenv.Must(t, <-got)
	b, err := os.ReadFile(filepath.Join(dir, "3"))
	testenv.Must(t, err)
	if !slices.Equal(b, f.content) {
		t.Error("other bytes than were sent")
	}
	if c.Agreed() != before.Agreed() {
		t.Errorf("agreed on %x, and before on %x", c.Agreed(), before.Agreed())
	}
}

// TestSlow: requests that wait hold up no other, and end when the mount does.
func TestSlow(t *testing.T) {
	dir, fd := attachTest(t)
	f := newTestFS()
	c := serve(t, dir, fd, f, Options{})
	const many = 64
	errs := make(chan error, many)
	for range many {
		go func() {
			_, err := os.Stat(filepath.Join(dir, "wait"))
			errs <- err
		}()
	}
	// The kernel looks names of one directory up one after the other where it has to, and
	// then some of these wait there.
	testenv.EventuallyIs(t, "a request waits", func() bool { return f.waiting.Load() > 0 })
	for range 100 {
		_, err := os.Stat(filepath.Join(dir, "1"))
		testenv.Must(t, err)
	}
	close(f.proceed)
	for range many {
		testenv.Must(t, <-errs)
	}
	f.waiting.Store(0)
	go func() {
		_, err := os.Stat(filepath.Join(dir, "forever"))
		errs <- err
	}()
	testenv.EventuallyIs(t, "a request waits", func() bool { return f.waiting.Load() > 0 })
	testenv.Must(t, unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH))
	if err := <-errs; err == nil {
		t.Error("a request of a mount that is gone was answered")
	}
	if n := c.idle.Load(); n > c.maxIdle {
		t.Errorf("%d readers wait for requests", n)
	}
}

// TestEarlyInterrupt: an interrupt that is read before its request counts.
func TestEarlyInterrupt(t *testing.T) {
	var f inflight
	r := newRequest()
	r.in = make([]byte, inHeaderSize)
	r.header().Unique = 10
	f.interrupt(10)
	f.interrupt(12)
	f.add(r)
	select {
	case <-r.cancel:
	default:
		t.Error("it was not interrupted")
	}
	f.remove(r)
	f.add(r)
	select {
	case <-r.cancel:
		t.Error("it was interrupted twice")
	default:
	}
	f.remove(r)
}

// TestCutShort: each request that lacks a part of it is EIO, for which there is one line in the log.
func TestCutShort(t *testing.T) {
	for _, op := range []uint32{opGetAttr, opOpen, opRead, opRelease, opIoctl, opReadDir, opGetXAttr} {
		var log testenv.Log
		c := &Conn{fs: newTestFS(), log: slog.New(slog.NewTextHandler(&log, nil))}
		c.protocol = fuse.NewProtocolServer(c.fs, &fuse.MountOptions{Logger: stdlog.New(logWriter{c.log}, "", 0)})
		r := newRequest()
		r.in = make([]byte, inHeaderSize+3)
		r.header().Opcode = op
		c.answer(r)
		if r.out.Status != -int32(fuse.EIO) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("opcode %d: status %d, log %q", op, r.out.Status, log.String())
		}
	}
}

// TestNoGarbage: the requests of a training leave none.
func TestNoGarbage(t *testing.T) {
	c := &Conn{fs: &quiet{newTestFS()}}
	r := newRequest()
	for op, size := range map[uint32]uintptr{
		opLookup: unsafe.Sizeof(fuse.InHeader{}) + 8, opGetAttr: unsafe.Sizeof(fuse.GetAttrIn{}), opOpen: unsafe.Sizeof(fuse.OpenIn{}),
		opRead: unsafe.Sizeof(fuse.ReadIn{}), opRelease: unsafe.Sizeof(fuse.ReleaseIn{}), opIoctl: unsafe.Sizeof(fuse.IoctlIn{}),
	} {
		r.in = r.buf[:size]
		clear(r.in)
		h := r.header()
		h.Opcode, h.Unique, h.NodeId = op, 2, 2
		if op == opLookup {
			copy(r.in[inHeaderSize:], "7\x00")
		}
		if op == opRead {
			as[fuse.ReadIn](r.in).Size = 128 << 10
		}
		answer := func() {
			c.answer(r)
			r.giveBack()
			r.free()
			if r.silent || r.out.Unique != 2 {
				t.Fatal("no reply")
			}
		}
		answer()
		if n := testing.AllocsPerRun(1000, answer); n >= 1 {
			t.Errorf("opcode %d: %v allocations", op, n)
		}
	}
}

// quiet leaves no garbage.
type quiet struct{ *testFS }

var none copied

func (q *quiet) Read(<-chan struct{}, *fuse.ReadIn, []byte) (fuse.ReadResult, fuse.Status) {
	return &none, fuse.OK
}

// TestEnd: the end of a mount leaves no goroutine and no descriptor of it.
func TestEnd(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		testenv.Must(t, err)
		n := 0
		for _, fd := range fds {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasSuffix(to, "/fuse") {
				n++
			}
		}
		return n
	}
	fds := count()
	dir, fd := attachTest(t)
	c, err := Start(fd, newTestFS(), Options{})
	testenv.Must(t, err)
	ended := make(chan struct{})
	go func() { c.Serve(); close(ended) }()
	_, err = os.Stat(filepath.Join(dir, "1"))
	testenv.Must(t, err)
	testenv.Must(t, unix.Unmount(dir, 0))
	<-ended
	if s := c.EntryNotify(rootNode, "1"); s.Ok() {
		t.Error("a notice of a mount that is gone was taken")
	}
	if n := count(); n > fds {
		t.Errorf("%d descriptors of connections, before %d", n, fds)
	}
	buf := make([]byte, 1<<20)
	testenv.EventuallyIs(t, "no reader is left", func() bool { return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "readDevice") })
}
