package conn

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// onFirstProcessor runs f in a thread that stays on the first processor that this process
// may use, and so asks one queue only.
func onFirstProcessor(t testing.TB, f func()) {
	runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
	var set, one unix.CPUSet
	testenv.Must(t, unix.SchedGetaffinity(0, &set))
	for i := range 1024 {
		if set.IsSet(i) {
			one.Set(i)
			break
		}
	}
	testenv.Must(t, unix.SchedSetaffinity(0, &one))
	f()
}

// TestBusyQueue: while many requests of one processor take long, another one of that
// processor is answered.
func TestBusyQueue(t *testing.T) {
	dir, fd := attachTest(t)
	f := newTestFS()
	serve(t, dir, fd, f, Options{})
	const many = 64
	var slow sync.WaitGroup
	for i := range many {
		slow.Go(func() {
			onFirstProcessor(t, func() {
				if _, err := os.Stat(filepath.Join(dir, fmt.Sprint("wait", i))); err != nil {
					t.Error(err)
				}
			})
		})
	}
	testenv.EventuallyIs(t, "all requests are under way", func() bool { return f.waiting.Load() == many })
	answered := make(chan struct{})
	go onFirstProcessor(t, func() {
		defer close(answered)
		for range 10 {
			b, err := os.ReadFile(filepath.Join(dir, "1"))
			if err != nil || !bytes.Equal(b, f.content) {
				t.Error("a kept file:", err)
			}
		}
	})
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Error("a kept file is not read while others take long")
	}
	close(f.proceed)
	slow.Wait()
	<-answered
}

// TestBurst: many requests at once are all answered.
func TestBurst(t *testing.T) {
	dir, fd := attachTest(t)
	f := newTestFS()
	serve(t, dir, fd, f, Options{})
	for range 5 {
		var burst sync.WaitGroup
		for i := range 64 {
			burst.Go(func() {
				onFirstProcessor(t, func() {
					if b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i%10))); err != nil || !bytes.Equal(b, f.content) {
						t.Error("other bytes than were sent:", err)
					}
				})
			})
		}
		burst.Wait()
	}
}

// TestLoad: 64 readers get the bytes that were sent, until the mount goes under them, and
// nothing is left of it. In a soak that takes ten minutes.
func TestLoad(t *testing.T) {
	long := 2 * time.Second
	if testenv.Soak() {
		long = 10 * time.Minute
	}
	dir, fd := attachTest(t)
	f := newTestFS()
	f.kept = true
	threads := count(t, "/proc/self/task")
	c := serve(t, dir, fd, f, Options{})
	var reads atomic.Int64
	var ends, gone atomic.Bool
	var readers sync.WaitGroup
	for i := range 64 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			buf := make([]byte, 200_000)
			for !ends.Load() {
				name := filepath.Join(dir, fmt.Sprint(r.IntN(10)))
				fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					if !gone.Load() {
						t.Error(err)
					}
					return
				}
				at, n := r.IntN(fileSize), 1+r.IntN(len(buf))
				got, err := retry(func() (int, error) { return unix.Pread(fd, buf[:n], int64(at)) })
				unix.Close(fd)
				switch {
				case gone.Load():
				case err != nil:
					t.Error(err)
					return
				case !bytes.Equal(buf[:got], f.content[at:min(at+n, fileSize)]):
					t.Errorf("other bytes than were sent, %d of %d at %d", got, n, at)
					return
				}
				reads.Add(1)
			}
		})
	}
	time.Sleep(long)
	gone.Store(true)
	testenv.Must(t, unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH))
	testenv.EventuallyIs(t, "the connection ends", func() bool {
		c.closing.RLock()
		defer c.closing.RUnlock()
		return c.fd < 0
	})
	ends.Store(true)
	readers.Wait()
	t.Logf("%d reads", reads.Load())
	maps, err := os.ReadFile("/proc/self/maps")
	testenv.Must(t, err)
	if n := bytes.Count(maps, []byte("io_uring")); n > 0 {
		t.Errorf("%d mappings of io_uring are left", n)
	}
	// What the 64 readers made the runtime start stays; what queues had goes.
	if now := count(t, "/proc/self/task"); now > threads+64+16 {
		t.Errorf("%d threads before, %d after", threads, now)
	}
}

func count(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testenv.Must(t, err)
	return len(entries)
}

// TestMemory: what a burst of large replies took is given back.
func TestMemory(t *testing.T) {
	if testTransport != Ring {
		t.Skip("it is about payloads of entries")
	}
	was := keptBytes
	keptBytes = 0
	t.Cleanup(func() { keptBytes = was })
	dir, fd := attachTest(t)
	f := newTestFS()
	c := serve(t, dir, fd, f, Options{})
	var burst sync.WaitGroup
	for i := range 64 {
		burst.Go(func() {
			onFirstProcessor(t, func() { _, _ = os.Stat(filepath.Join(dir, fmt.Sprint("wait", i))) })
		})
	}
	testenv.EventuallyIs(t, "requests wait", func() bool { return f.waiting.Load() > 16 })
	close(f.proceed)
	burst.Wait()
	for range 3 {
		var readers sync.WaitGroup
		for i := range 64 {
			readers.Go(func() {
				onFirstProcessor(t, func() { _, _ = os.ReadFile(filepath.Join(dir, fmt.Sprint(i%10))) })
			})
		}
		readers.Wait()
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	testenv.Must(t, err)
	size := fmt.Sprintf("Size: %18d kB", (os.Getpagesize()+c.queues.payload)>>10)
	resident := 0
	for _, area := range strings.SplitAfter(string(smaps), "VmFlags:") {
		if !strings.Contains(area, size) {
			continue
		}
		var kb int
		_, rss, _ := strings.Cut(area, "\nRss:")
		if _, err := fmt.Sscan(rss, &kb); err == nil && kb > keptPayload>>10+3*os.Getpagesize()>>10 {
			resident++
		}
	}
	if most := (idleThreads + 1) * len(c.queues.all); resident > most {
		t.Errorf("%d of %d threads hold the memory of a large reply, at most %d should", resident, c.queues.count.Load(), most)
	}
}

// TestForbidden: where io_uring is forbidden, as seccomp does in containers, Auto is
// /dev/fuse, and Ring an error before anything was agreed on.
func TestForbidden(t *testing.T) {
	if testTransport != Ring {
		t.Skip("it is about io_uring")
	}
	if os.Getenv("CONN_TEST_FORBIDDEN") == "" {
		self, err := os.Executable()
		testenv.Must(t, err)
		cmd := exec.Command(self, "-test.run=^TestForbidden$", "-test.v")
		cmd.Env = append(os.Environ(), "CONN_TEST_FORBIDDEN=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	forbid(t, unix.SYS_IO_URING_SETUP)
	for _, transport := range []Transport{Auto, Ring} {
		dir, fd := attachTest(t)
		var c *Conn
		var err error
		testenv.WithRings(t, func() { c, err = Start(fd, newTestFS(), Options{Transport: transport}) })
		if transport == Ring {
			if !errors.Is(err, ErrRing) || !errors.Is(err, unix.EPERM) {
				t.Error(err)
			}
			continue
		}
		testenv.Must(t, err)
		ended := make(chan struct{})
		go func() { c.Serve(); close(ended) }()
		_, err = os.Stat(filepath.Join(dir, "1"))
		testenv.Must(t, err)
		if c.Transport() != Device {
			t.Error(c.Transport())
		}
		testenv.Must(t, unix.Unmount(dir, 0))
		<-ended
	}
}

// forbid makes a system call fail in all threads of this process.
func forbid(t testing.TB, call uint32) {
	t.Helper()
	const load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the call
		{Code: equal, K: call, Jf: 1},
		{Code: ret, K: 0x00050000 | uint32(unix.EPERM)}, // SECCOMP_RET_ERRNO
		{Code: ret, K: 0x7fff0000},                      // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	testenv.Must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	const setModeFilter, allThreads = 1, 1
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, allThreads, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Fatal("seccomp:", errno)
	}
}
