// Package testenv tells tests what is around them: the race detector, the pictures beside
// the project, and whether this run is the short one.
//
// There are two speeds. A short run (make check) leaves out the tests that mount, run the
// program or another one, or take longer than about a second. A full run (make test) leaves
// out only what needs pictures or hardware that cannot be installed. What else is missing
// fails the test.
package testenv

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Slow leaves a test out of a short run.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out of a short run")
	}
}

// Mounts leaves a test that mounts out of a short run, and fails it where nothing can be
// mounted.
func Mounts(t testing.TB) {
	t.Helper()
	Slow(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Fatalf("this test mounts: it needs /dev/fuse and root or fusermount3 (in a container: --device /dev/fuse --cap-add SYS_ADMIN): %v", err)
	}
}

// Root fails a test that only root can run.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
}

// Shared lists the files that a pattern such as "kodak/*.png" names in ../shared/data beside
// the project. They are no part of it. Where there are none, the test is left out.
func Shared(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top(t), "../shared/data", pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Logf("%s is missing", pattern)
		t.Skip("the pictures in ../shared/data beside the project are missing")
	}
	return paths
}

// top is the directory of the project.
func top(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "Makefile")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test does not run in the project")
		}
		dir = filepath.Dir(dir)
	}
}

// Must ends a test at an error that it is not about.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long Eventually waits: for ever, on a machine that is not broken.
const patience = time.Minute

// Eventually waits until something is so, and see returns nil.
func Eventually(t testing.TB, see func() error) {
	t.Helper()
	err := see()
	for deadline := time.Now().Add(patience); err != nil; err = see() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", patience, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// EventuallyIs is Eventually with what is waited for.
func EventuallyIs(t testing.TB, what string, is func() bool) {
	t.Helper()
	Eventually(t, func() error {
		if !is() {
			return errors.New(what)
		}
		return nil
	})
}

// Soak reports whether the long tests were asked for (make soak).
func Soak() bool { return os.Getenv("PIPEFS_SOAK") != "" }

// Seed is the seed of a test's random choices. It is the same in every run of the test, so
// that what passes once passes again, and another one each time in a soak. PIPEFS_SEED
// repeats one.
func Seed(t testing.TB) uint64 {
	t.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	seed := h.Sum64()
	if text := os.Getenv("PIPEFS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("PIPEFS_SEED: %v", err)
		}
		seed = n
	} else if Soak() {
		seed = rand.Uint64()
	}
	t.Logf("repeat with PIPEFS_SEED=%d", seed)
	return seed
}

// Log collects what many goroutines log.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Pictures lists the files that a pattern names in testdata/pictures of the project: small
// pictures of every kind.
func Pictures(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top(t), "testdata/pictures", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata/pictures has no %s, %v", pattern, err)
	}
	return paths
}

// Picture reads one of these files.
func Picture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top(t), "testdata/pictures", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ViewsFile is testdata/views.txt: what each view shows of each of these pictures, by view and
// name, as Digest tells it. What a view shows unchanged is not listed.
func ViewsFile(t testing.TB) string { return filepath.Join(top(t), "testdata/views.txt") }

// Views reads ViewsFile.
func Views(t testing.TB) map[[2]string]string {
	t.Helper()
	b, err := os.ReadFile(ViewsFile(t))
	if err != nil {
		t.Fatal(err)
	}
	views := map[[2]string]string{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] != "#" {
			views[[2]string{f[0], f[1]}] = f[2] + " " + f[3]
		}
	}
	return views
}

// Digest is a file's size, and the first 16 digits of its SHA-256.
func Digest(b []byte) string { return fmt.Sprintf("%d %.8x", len(b), sha256.Sum256(b)) }

// CPU begins to count the CPU time of the process, and returns a function that reports it for each
// operation: a busy machine stretches the time of the clock.
func CPU(b *testing.B) (report func()) {
	used := func() int64 {
		var u syscall.Rusage
		Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	from := used()
	return func() { b.ReportMetric(float64(used()-from)/float64(b.N), "cpu-ns/op") }
}

var (
	updateExample = flag.Bool("update-example", false, "write the bytes into the page that shows them")
	dumped        = regexp.MustCompile("(?s)```\n(.*?)```\n")
)

// Example wants a page to show these bytes: its only block of code is their dump.
func Example(t *testing.T, page string, b []byte) {
	t.Helper()
	text, err := os.ReadFile(page)
	Must(t, err)
	dump := hex.Dump(b)
	found := dumped.FindSubmatchIndex(text)
	switch {
	case found == nil:
		t.Fatalf("%s has no block of code", page)
	case string(text[found[2]:found[3]]) == dump:
	case *updateExample:
		Must(t, os.WriteFile(page, []byte(string(text[:found[2]])+dump+string(text[found[3]:])), 0o644))
	default:
		t.Errorf("%s does not show these bytes; if the format changed on purpose, run the test with -update-example and mend the notes\n%s", page, strings.TrimSpace(dump))
	}
}

// Proof is a line that a test writes for a row of docs/reliability.md.
type Proof struct {
	Row   string
	Done  int64   // how often the test did what the row counts
	Worst float64 `json:",omitempty"` // the largest value of what the row limits, such as the seconds of a pause
}

// Proved tells make soak that a test did what a row of docs/reliability.md counts, and how often, with the right outcome each
// time. A test that did nothing fails. PIPEFS_SOAK names the file; a value that is no absolute path names none.
func Proved[N int | int64](t testing.TB, row string, done N, worst ...float64) {
	t.Helper()
	if done <= 0 {
		t.Errorf("%s: nothing was done, so nothing is proved", row)
	}
	name := os.Getenv("PIPEFS_SOAK")
	if !filepath.IsAbs(name) || t.Failed() {
		return
	}
	p := Proof{Row: row, Done: int64(done)}
	for _, w := range worst {
		p.Worst = max(p.Worst, w)
	}
	line, err := json.Marshal(p)
	Must(t, err)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	Must(t, err)
	defer f.Close()
	_, err = f.Write(append(line, '\n')) // one write: tests of other processes append, too
	Must(t, err)
}

// Stuck returns a process that has locked a file, was killed, and keeps the lock: a thread of it waits in
// the kernel for the answer of a FUSE mount, as those of a daemon do that is killed while it tells the
// kernel of changes. That is its first thread, or another one. The answer never comes; when the test ends,
// the mount does, and so does the process.
func Stuck(t testing.TB, lock string, first bool) (pid int) {
	t.Helper()
	dir := t.TempDir()
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	Must(t, err)
	Must(t, unix.Mount("stuck", dir, "fuse", 0, "rootmode=40000,user_id=0,group_id=0,fd="+strconv.Itoa(fuse)))
	script := `
import fcntl, os, sys, threading
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
if sys.argv[3] == "first":
    os.stat(sys.argv[2])
threading.Thread(target=os.stat, args=sys.argv[2:3]).start()
`
	which := "other"
	if first {
		which = "first"
	}
	cmd := exec.Command("python3", "-c", script, lock, dir, which)
	out, err := cmd.StdoutPipe()
	Must(t, err)
	Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		_ = unix.Close(fuse) // ends the connection: the thread gets an error
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the process that locks: %q, %v", line, err)
	}
	buf := make([]byte, 1<<17)
	const opInit = 26
	for op := uint32(opInit); op == opInit; {
		_, err := unix.Read(fuse, buf)
		Must(t, err)
		if op = binary.NativeEndian.Uint32(buf[4:]); op == opInit {
			// fuse_out_header, and a fuse_init_out of version 7.31 with nothing more.
			answer := make([]byte, 16+64)
			binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
			copy(answer[8:16], buf[8:16]) // which request
			binary.NativeEndian.PutUint32(answer[16:], 7)
			binary.NativeEndian.PutUint32(answer[20:], 31)
			binary.NativeEndian.PutUint32(answer[36:], 4096) // the longest write
			_, err = unix.Write(fuse, answer)
			Must(t, err)
		}
	}
	Must(t, cmd.Process.Signal(os.Kill))
	return cmd.Process.Pid
}
