package cgroup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// enterTest makes a group for the length of a test, or skips it where none can be
// made: without root, or without cgroups.
func enterTest(t *testing.T, path string, l Limits) *Group {
	t.Helper()
	g, err := Enter(path, l)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	testenv.Must(t, err)
	var dirs []string
	for _, n := range g.nodes {
		dirs = append(dirs, n.dir)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, dir := range dirs {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left behind: %v", dir, err)
			}
		}
	})
	return g
}

// cold makes a file that is on the disk and not in memory.
func cold(t *testing.T, size int) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	testenv.Must(t, err)
	t.Cleanup(func() { f.Close() })
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	drop(t, f)
	return f
}

func drop(t *testing.T, f *os.File) {
	t.Helper()
	testenv.Must(t, errors.Join(unix.Fsync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)))
}

// holds runs something that takes as long as want under a limit. That it is quicker by
// a fifth is always wrong. That it takes twice as long may be other work on the machine,
// so it has some tries.
func holds(t *testing.T, what string, want time.Duration, run func()) {
	t.Helper()
	var took []time.Duration
	for range 5 {
		began := time.Now()
		run()
		d := time.Since(began)
		took = append(took, d)
		if d < want*8/10 {
			t.Fatalf("%s took %v; the limit allows %v", what, d, want)
		}
		if d < want*2 {
			t.Logf("%s took %v of %v", what, d, want)
			return
		}
	}
	t.Errorf("%s took %v where the limit allows %v", what, took, want)
}

func TestBytesPerSecond(t *testing.T) {
	f := cold(t, 20e6)
	g := enterTest(t, f.Name(), Limits{BytesPerSecond: 20e6})
	buf := make([]byte, 20e6)
	read := func() {
		drop(t, f)
		if _, err := f.ReadAt(buf, 0); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, "20 MB at 20 MB/s", time.Second, read)
	testenv.Must(t, g.Set(Limits{BytesPerSecond: 40e6}))
	holds(t, "20 MB at 40 MB/s", time.Second/2, read)
	testenv.Must(t, g.Set(Limits{}))
}

func TestReadsPerSecond(t *testing.T) {
	const reads, size = 400, 32 << 20
	f := cold(t, size)
	enterTest(t, f.Name(), Limits{ReadsPerSecond: reads})
	testenv.Must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM))
	block := make([]byte, 4096)
	holds(t, fmt.Sprintf("%d reads at %d a second", reads, reads), time.Second, func() {
		drop(t, f)
		for _, i := range rand.Perm(size / 65536)[:reads] {
			if _, err := f.ReadAt(block, int64(i)*65536); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestMemory: what a process started in the group reads stays within its memory.
func TestMemory(t *testing.T) {
	const limit = 64 << 20
	f := cold(t, 3*limit)
	g := enterTest(t, f.Name(), Limits{Memory: limit})
	if g.memory == nil {
		t.Skip(g.noMemory)
	}
	if out, err := exec.Command("dd", "if="+f.Name(), "of=/dev/null", "bs=1M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	peak, err := peakOf(g)
	testenv.Must(t, err)
	if peak > limit || peak < limit/2 {
		t.Errorf("%d bytes at once, of %d that were read, in a group of %d", peak, 3*limit, limit)
	}
	testenv.Must(t, g.Set(Limits{Memory: 4 * limit}))
	if out, err := exec.Command("dd", "if="+f.Name(), "of=/dev/null", "bs=1M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if more, err := peakOf(g); err != nil || more <= limit {
		t.Errorf("with four times the memory: %d bytes at once, %v", more, err)
	}
}

// peakOf is the most memory that a group has had at once, in bytes, page cache
// included.
func peakOf(g *Group) (peak int64, err error) {
	name := map[bool]string{false: "memory.max_usage_in_bytes", true: "memory.peak"}[g.memory.V2]
	b, err := os.ReadFile(filepath.Join(g.memory.dir, name))
	if err == nil {
		_, err = fmt.Sscan(string(b), &peak)
	}
	return peak, err
}

// groupsOf are the groups of a process.
func groupsOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	testenv.Must(t, err)
	return string(b)
}

// TestAdd: a process that runs already is put into the group, and taken out at its end.
func TestAdd(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	testenv.Must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	groups := func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
		testenv.Must(t, err)
		return string(text)
	}
	before := groups()
	g, err := Enter(t.TempDir(), Limits{})
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	testenv.Must(t, err)
	testenv.Must(t, g.Add(cmd.Process.Pid))
	if got := groups(); got == before || !strings.Contains(got, prefix) {
		t.Errorf("the process is in\n%s", got)
	}
	testenv.Must(t, g.Close())
	if got := groups(); got != before {
		t.Errorf("the process is in\n%sand was in\n%s", got, before)
	}
}

// TestClose: whoever still runs goes home, those who were just killed are waited
// for, and nothing is left.
func TestClose(t *testing.T) {
	dir := t.TempDir()
	before := groupsOf(t, os.Getpid())
	g := enterTest(t, dir, Limits{})
	if now := groupsOf(t, os.Getpid()); now == before || !strings.Contains(now, prefix) {
		t.Errorf("not in the group:\n%s", now)
	}
	var children []*exec.Cmd
	for range 4 {
		c := exec.Command("sleep", "60")
		testenv.Must(t, c.Start())
		children = append(children, c)
	}
	defer func() {
		for _, c := range children {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for _, c := range children[1:] {
		testenv.Must(t, c.Process.Kill())
	}
	var dirs []string
	for _, n := range g.nodes {
		dirs = append(dirs, n.dir)
	}
	testenv.Must(t, g.Close())
	if now := groupsOf(t, os.Getpid()); now != before {
		t.Errorf("this process is in\n%s; it was in\n%s", now, before)
	}
	if now := groupsOf(t, children[0].Process.Pid); now != before {
		t.Errorf("the child is in\n%s; its parent was in\n%s", now, before)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", dir, err)
		}
	}
	if err := g.Close(); err != nil {
		t.Error("closed twice: ", err)
	}
	if err := g.Set(Limits{BytesPerSecond: 1e6}); err == nil {
		t.Error("a closed group takes limits")
	}
}

// TestStale: what a run that was killed has left is removed, and another run's is
// not, nor is what only has a similar name.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	gone := exec.Command("true")
	testenv.Must(t, gone.Run())
	names := map[string]bool{ // whether it stays
		fmt.Sprintf("%s%d-1", prefix, gone.Process.Pid): false,
		fmt.Sprintf("%s%d", prefix, gone.Process.Pid):   false,
		fmt.Sprintf("%s%d-9", prefix, os.Getpid()):      true,
		prefix + "other": true,
		prefix + "0-1":   true,
		fmt.Sprintf("bench-%d-1", gone.Process.Pid): true,
	}
	try := func(parent string) {
		t.Helper()
		for name := range names {
			testenv.Must(t, os.Mkdir(filepath.Join(parent, name), 0o755))
		}
		removeStale(parent)
		for name, want := range names {
			if _, err := os.Stat(filepath.Join(parent, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
			_ = unix.Rmdir(filepath.Join(parent, name))
		}
	}
	try(dir)
	g := enterTest(t, dir, Limits{})
	for _, n := range g.nodes {
		try(n.dir)
		// Who makes a group removes what others left beside it.
		stale := filepath.Join(filepath.Dir(n.dir), fmt.Sprintf("%s%d-1", prefix, gone.Process.Pid))
		testenv.Must(t, os.Mkdir(stale, 0o755))
		defer func() {
			if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", stale, errors.Join(err, unix.Rmdir(stale)))
			}
		}()
	}
	testenv.Must(t, g.Close())
	enterTest(t, dir, Limits{})
}

func TestBadLimits(t *testing.T) {
	if _, err := Enter(filepath.Join(t.TempDir(), "none"), Limits{}); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrNone) {
		t.Errorf("of a file that is not there: %v", err)
	}
	g := &Group{noReads: errors.New("no reads"), noMemory: errors.New("no memory")}
	for want, l := range map[string]Limits{
		"below zero": {BytesPerSecond: -1}, "no reads": {ReadsPerSecond: 1}, "no memory": {Memory: 1},
	} {
		if err := g.Set(l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	// /proc is on no disk: there memory alone can be limited, and a limit of reads
	// says so.
	if _, err := Enter("/proc", Limits{BytesPerSecond: 1e6}); !errors.Is(err, ErrNone) {
		t.Errorf("reads of /proc: %v", err)
	}
}
