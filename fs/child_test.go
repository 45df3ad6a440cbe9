package fs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Mapped files are read in a process of their own: a page fault stops a thread
// in a way that Go's garbage collector, which may be needed to answer it, waits
// for.

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
	case "equal":
		for i := 0; i < len(args) && err == nil; i += 2 {
			err = equal(args[i], args[i+1])
		}
	case "mapped":
		err = keepMapped(args[0])
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

// equal reads a file in every way and compares it with another one.
func equal(path, wanted string) error {
	want, err := os.ReadFile(wanted)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(want))))
	for round := range 3 {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		ways := map[string]func(*os.File, []byte, *rand.Rand) error{
			"mmap": mapPrivate, "mmap shared": mapShared, "pread": pread, "readv": readv,
		}
		for name, way := range ways {
			if err := way(f, want, rnd); err != nil {
				return fmt.Errorf("%s of %s in round %d: %w", name, path, round, err)
			}
		}
		f.Close()
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("read of %s: differs", path)
		}
	}
	return nil
}

func mapPrivate(f *os.File, want []byte, _ *rand.Rand) error {
	return mapped(f, want, unix.MAP_PRIVATE)
}
func mapShared(f *os.File, want []byte, _ *rand.Rand) error { return mapped(f, want, unix.MAP_SHARED) }

func mapped(f *os.File, want []byte, flags int) error {
	if len(want) == 0 {
		return nil
	}
	m, err := unix.Mmap(int(f.Fd()), 0, (len(want)+4095)&^4095, unix.PROT_READ, flags)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(m) }()
	if !bytes.Equal(m[:len(want)], want) {
		return errors.New("differs")
	}
	if len(bytes.Trim(m[len(want):], "\x00")) != 0 {
		return errors.New("the last page is not filled with zeros")
	}
	return nil
}

func pread(f *os.File, want []byte, rnd *rand.Rand) error {
	for range 50 {
		off := rnd.IntN(len(want) + 10)
		n := rnd.IntN(200_000)
		end := min(off+n, len(want))
		buf := make([]byte, n)
		got, err := unix.Pread(int(f.Fd()), buf, int64(off))
		if err != nil {
			return err
		}
		if !bytes.Equal(buf[:got], want[min(off, len(want)):max(end, min(off, len(want)))]) {
			return fmt.Errorf("%d bytes at %d: differs", n, off)
		}
	}
	return nil
}

func readv(f *os.File, want []byte, rnd *rand.Rand) error {
	off := rnd.IntN(len(want) + 1)
	bufs := [][]byte{make([]byte, 10), make([]byte, 5000), make([]byte, 1), make([]byte, 70_000)}
	n, err := unix.Preadv(int(f.Fd()), bufs, int64(off))
	if err != nil {
		return err
	}
	if !bytes.Equal(bytes.Join(bufs, nil)[:n], want[off:min(len(want), off+75_011)]) {
		return fmt.Errorf("%d bytes at %d: differs", n, off)
	}
	return nil
}

// keepMapped maps a file, closes it, says so, and compares what it sees with what
// it saw first until its input ends.
func keepMapped(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	f.Close()
	first := bytes.Clone(m)
	fmt.Println("mapped")
	_, _ = os.Stdin.Read(make([]byte, 1))
	if !bytes.Equal(first, m) {
		return errors.New("a mapped file changed")
	}
	return nil
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
