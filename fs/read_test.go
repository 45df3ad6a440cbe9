package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// noise is n bytes that differ for each seed.
func noise(n int, seed uint64) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(b)
	return string(b)
}

// TestKeptPages: in PageCache mode a file that was read once costs no request.
func TestKeptPages(t *testing.T) {
	m := mount(t, PageCache)
	m.write("a.jpg", noise(100_000, 1))
	want := string(derived("bmp", []byte(noise(100_000, 1))))
	m.want(want, "bmp/a.bmp")
	m.write("large.jpg", noise(2<<20, 2))
	m.want(string(derived("bmp", []byte(noise(2<<20, 2)))), "bmp/large.bmp")
	before := m.fs.Stats().Views
	if before[2].Reads < 4 || before[2].Begun != 2 {
		t.Errorf("two files were read once, counted %+v", before[2])
	}
	// The kernel may take a page back at any time, but not in each of these rounds.
	testenv.Eventually(t, func() error {
		before := m.fs.Stats().Views
		for range 5 {
			m.want(want, "bmp/a.bmp")
		}
		if after := m.fs.Stats().Views; !slices.Equal(before, after) {
			return fmt.Errorf("%+v, before %+v", after, before)
		}
		return nil
	})
}

// TestPassthrough: in DaemonCache mode the kernel reads memfds by itself.
func TestPassthrough(t *testing.T) {
	m := mount(t, DaemonCache)
	if !m.fs.Stats().Passthrough {
		t.Skip("this kernel has no passthrough, or it is not permitted")
	}
	src := noise(300_000, 1)
	m.write("a.jpg", src)
	m.write("plain.txt", src)
	want := string(derived("bmp", []byte(src)))
	var open []*os.File
	for range 3 {
		f, err := os.Open(m.path("bmp/a.bmp"))
		testenv.Must(t, err)
		open = append(open, f)
	}
	// The cache forgets it; who has it open keeps it, and who comes gets the same.
	m.forget()
	m.want(want, "bmp/a.bmp")
	for _, f := range open {
		if got, err := io.ReadAll(f); err != nil || string(got) != want {
			t.Errorf("read: %v", err)
		}
		f.Close()
	}
	m.want(src, "original/plain.txt")
	for _, v := range m.fs.Stats().Views {
		// The kernel's own reads are counted when files are opened, of which 4 were.
		if v.View == "bmp" && (v.Reads != 0 || v.Begun != 4 || v.Bytes != 4*int64(len(want))) || v.View == "original" && (v.Reads != 0 || v.Begun != 1) {
			t.Errorf("counted %+v", v)
		}
	}
	testenv.Eventually(t, func() error {
		bytes := int64(0)
		for _, r := range m.fs.account.Now().Readers {
			bytes += r.Bytes
		}
		if bytes != int64(4*len(want)+len(src)) {
			return fmt.Errorf("readers read %d bytes", bytes)
		}
		return nil
	})
	released(t, m)
	if n := m.p.Stats().Opened; n != 2 {
		t.Errorf("opened %d times, want 2", n)
	}
	m.forget()
	if n := m.p.Stats().MemoryBytes; n != 0 {
		t.Errorf("%d bytes of contents that nobody keeps", n)
	}
	// What stays cached is told to the kernel once.
	known := map[int32]bool{}
	for range 5 {
		m.want(want, "bmp/a.bmp")
		released(t, m)
		c := m.fs.handles.get(inode(t, m.path("bmp/a.bmp"))).Cached()
		known[c.Backing()] = true
		c.Release()
	}
	if len(known) != 1 || known[0] {
		t.Errorf("the kernel was told of one content as %v", known)
	}
}

// TestOpenedAgain: an open of a file that is open counts as a hit of the cache.
func TestOpenedAgain(t *testing.T) {
	m := mount(t, DaemonCache)
	m.write("a.jpg", noise(50_000, 3))
	first, err := os.Open(m.path("bmp/a.bmp"))
	testenv.Must(t, err)
	defer first.Close()
	for range 3 {
		again, err := os.Open(m.path("bmp/a.bmp"))
		testenv.Must(t, err)
		testenv.Must(t, again.Close())
	}
	if s := m.p.Stats(); s.Hits != 3 || s.Opened != 1 {
		t.Errorf("%d hits of 3, opened %d times", s.Hits, s.Opened)
	}
}

// released waits until all files are closed: the kernel does not wait for the
// answer to RELEASE.
func released(t *testing.T, m *mounted) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var open int64
		for _, v := range m.fs.Stats().Views {
			open += v.Open
		}
		if open == 0 {
			return nil
		}
		return fmt.Errorf("not released: %+v", m.fs.Stats())
	})
}

// TestPassthroughComesAndGoes: opens of one file at the same time, of which some
// could be passed through and some not.
func TestPassthroughComesAndGoes(t *testing.T) {
	m := mount(t, DaemonCache)
	src := noise(50_000, 2)
	m.write("a.jpg", src)
	want := derived("bmp", []byte(src))
	var wg sync.WaitGroup
	for r := range 8 {
		wg.Go(func() {
			for i := range 200 {
				got, err := os.ReadFile(m.path("bmp/a.bmp"))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("round %d: %v", i, err)
					return
				}
				switch (i + r) % 16 {
				case 0:
					m.forget()
				case 8:
					m.fs.passes.Store(!m.fs.passes.Load())
				}
			}
		})
	}
	wg.Wait()
	released(t, m)
}

func TestWithoutPassthrough(t *testing.T) {
	m := mount(t, DaemonCache)
	m.fs.passes.Store(false)
	src := noise(300_000, 1)
	m.write("a.jpg", src)
	m.want(string(derived("bmp", []byte(src))), "bmp/a.bmp")
	released(t, m)
	// No pages are kept: each open reads again.
	reads := m.fs.Stats().Views[2].Reads
	m.want(string(derived("bmp", []byte(src))), "bmp/a.bmp")
	if now := m.fs.Stats().Views[2].Reads; now == reads {
		t.Error("pages were kept")
	}
}

// TestReleaseOfBefore: a file that the daemon before this one opened is released, and what
// this one has open stays so.
func TestReleaseOfBefore(t *testing.T) {
	m := mount(t, DaemonCache)
	m.write("a.jpg", "hello")
	f, err := os.Open(m.path("bmp/a.bmp"))
	testenv.Must(t, err)
	defer f.Close()
	node := inode(t, m.path("bmp/a.bmp"))
	m.fs.Release(nil, &fuse.ReleaseIn{InHeader: fuse.InHeader{NodeId: node}, Fh: 1})
	c := m.fs.opens.content(node)
	if c == nil {
		t.Fatal("an open file was released")
	}
	c.Release()
}

// TestSignals: a signal that a program has a handler for does not interrupt its
// reads, and a deadly one is obeyed though the sample takes its time.
func TestSignals(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("a.jpg", "hello")
		m.write("b.jpg", "for long")
		asked := make(chan bool, 1)
		slow := func(ctx context.Context, src []byte) error {
			select {
			case asked <- true:
			default:
			}
			limit := 300 * time.Millisecond
			if string(src) == "for long" {
				limit = time.Minute
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(limit):
				return nil
			}
		}
		m.before.Store(&slow)
		inChild(t, "signals", m.path("bmp/a.bmp"))
		<-asked
		c := childCommand("signals", m.path("bmp/b.bmp"))
		testenv.Must(t, c.Start())
		<-asked
		began := time.Now()
		testenv.Must(t, c.Process.Kill())
		_ = c.Wait()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("killing a reader took %v", d)
		}
		m.before.Store(nil)
	})
}

// readRequest is a READ of a file that is open, without a mount.
func readRequest(tb testing.TB) (*FS, *fuse.ReadIn, []byte) {
	d, err := source.Open(tb.TempDir(), source.Options{})
	testenv.Must(tb, err)
	p := newServer(tb, testRegistry(), d, PageCache)
	tb.Cleanup(func() { p.Close(); d.Close() })
	f, err := New(Options{Registry: testRegistry(), Server: p})
	testenv.Must(tb, err)
	testenv.Must(tb, os.WriteFile(filepath.Join(d.Root(), "a.jpg"), []byte(noise(300_000, 1)), 0o644))
	in := &fuse.ReadIn{Offset: 4096, Size: 128 << 10}
	var status fuse.Status
	if in.NodeId, status = lookUp(f, "original", "a.jpg"); !status.Ok() {
		tb.Fatal(status)
	}
	return f, in, make([]byte, in.Size)
}

func TestReadDoesNotAllocate(t *testing.T) {
	f, in, buf := readRequest(t)
	read := func() {
		r, status := f.Read(nil, in, buf)
		if status != fuse.OK || r.Size() != len(buf) {
			t.Fatal(status)
		}
		r.Bytes(buf)
		r.Done()
	}
	read()
	if allocs := testing.AllocsPerRun(1000, read); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestShortContent: a read that ends before the file does is an error, as the
// kernel would take it for the end.
func TestShortContent(t *testing.T) {
	c := bytes.NewReader([]byte("12345"))
	if _, err := readFull(c, 10, make([]byte, 10), 0); !errors.Is(err, io.ErrUnexpectedEOF) || errno(err) != fuse.EIO {
		t.Errorf("short content: %v", err)
	}
	for off, want := range map[int64]int{0: 5, 3: 2, 5: 0, 9: 0} {
		if n, err := readFull(c, 5, make([]byte, 10), off); n != want || err != nil {
			t.Errorf("at %d: %d, %v", off, n, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	f, in, buf := readRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		r, _ := f.Read(nil, in, buf)
		r.Bytes(buf)
		r.Done()
	}
}

// inChild runs a function of child and returns what it prints.
func inChild(t testing.TB, run string, args ...string) string {
	t.Helper()
	out, err := childCommand(run, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v\n%s", run, args, err, out)
	}
	return string(out)
}

func childCommand(run string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "PIPEFS_TEST_CHILD="+run, "GORACE=atexit_sleep_ms=0")
	return c
}

func child(run string, args []string) int {
	var err error
	switch run {
	case "signals":
		err = openWithSignals(args[0])
	case "as":
		err = readAs(args[0])
	default:
		err = fmt.Errorf("no %q", run)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// openWithSignals opens and reads a file while it gets signals that it has a
// handler for.
func openWithSignals(path string) error {
	got := make(chan os.Signal, 100)
	signal.Notify(got, unix.SIGUSR1)
	stop := make(chan bool)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				// to every thread, so also to the one that waits
				tasks, _ := os.ReadDir("/proc/self/task")
				for _, task := range tasks {
					var tid int
					_, _ = fmt.Sscan(task.Name(), &tid)
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGUSR1)
				}
			}
		}
	}()
	defer close(stop)
	fd, err := unix.Open(path, unix.O_RDONLY, 0) // Go's own would try again
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if _, err := unix.Pread(fd, make([]byte, 100), 0); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(got) == 0 {
		return errors.New("no signals")
	}
	return unix.Close(fd)
}

// readAs reads a file as nobody.
func readAs(path string) error {
	if err := unix.Setresuid(65534, 65534, 65534); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, unix.EACCES):
		fmt.Print("EACCES")
	case err != nil:
		return err
	default:
		fmt.Print(strings.TrimSpace(string(data)))
	}
	return nil
}
