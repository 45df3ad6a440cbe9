package conn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestBusy: while many requests take long, another one is answered.
func TestBusy(t *testing.T) {
	dir, fd := attachTest(t)
	f := newTestFS()
	serve(t, dir, fd, f, Options{})
	const many = 64
	var slow sync.WaitGroup
	for i := range many {
		slow.Go(func() {
			if _, err := os.Stat(filepath.Join(dir, fmt.Sprint("wait", i))); err != nil {
				t.Error(err)
			}
		})
	}
	testenv.EventuallyIs(t, "all requests are under way", func() bool { return f.waiting.Load() == many })
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for range 10 {
			b, err := os.ReadFile(filepath.Join(dir, "1"))
			if err != nil || !bytes.Equal(b, f.content) {
				t.Error("a kept file:", err)
			}
		}
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Error("a kept file is not read while others take long")
	}
	close(f.proceed)
	slow.Wait()
	<-answered
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
	// What the 64 readers made the runtime start stays.
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
