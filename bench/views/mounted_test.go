package views

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestMain makes a directory of this package's own for temporary files.
func TestMain(m *testing.M) { os.Exit(inside(m)) }

func inside(m *testing.M) int {
	temp, err := os.MkdirTemp("", "pf-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(temp)
	os.Setenv("TMPDIR", temp)
	// The race detector sleeps for a second before a process ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	return testmount.Main(m)
}

// places checks at the end of a test that nothing is left behind, nor mounted. Tests
// take turns, apart from parts of one test.
func places(t *testing.T) (program string) {
	t.Helper()
	program = testmount.Binary(t)
	t.Cleanup(func() {
		left, err := mounts.Within(os.TempDir())
		if err != nil {
			t.Error(err)
		}
		for _, m := range left {
			t.Errorf("%s is still mounted", m.Mountpoint)
			_ = mounts.Unmount(m.Mountpoint, true)
		}
		dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "pipefs-bench-*"))
		if len(dirs) > 0 || err != nil {
			t.Errorf("left behind: %v, %v", dirs, err)
		}
	})
	return program
}

// dataset has so many small pictures.
func dataset(t *testing.T, samples string, more ...string) string {
	t.Helper()
	return testmount.Generate(t, append([]string{"-samples", samples, "-png-every", "0", "-width", "240", "-height", "180"}, more...)...)
}

// list is all files below a directory.
func list(t *testing.T, dir string) (names []string, size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		names = append(names, name)
		size += st.Size()
		return nil
	})
	if err != nil || len(names) == 0 {
		t.Fatal("no files: ", err)
	}
	return names, size
}

func open(t *testing.T, program, source string, options ...string) *Mount {
	t.Helper()
	m, err := OpenMount(t.Context(), program, source, append([]string{"--no-background"}, options...)...)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// gone reports whether there is no such process; one that its parent has not waited
// for is gone, too.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// TestMounted: a mount is read, what that took is told, and nothing is left.
func TestMounted(t *testing.T) {
	program := places(t)
	source := dataset(t, "30", "-copies", "10")
	ctx, cancel := context.WithCancel(t.Context())
	m, err := OpenMount(ctx, program, source, "--no-background")
	testenv.Must(t, err)
	names, size := list(t, filepath.Join(m.Dir, "original"))
	testenv.Must(t, loader.Forget(source))
	before, err := m.Usage()
	testenv.Must(t, err)
	for _, name := range names {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	after, err := m.Usage()
	testenv.Must(t, err)
	if after.CPU < before.CPU || after.CPU == 0 || after.Resident < 1<<20 {
		t.Errorf("used %+v, before reading %+v", after, before)
	}
	if read := after.Read - before.Read; read < size*9/10 {
		t.Errorf("%d bytes were read from the disk, of %d", read, size)
	}
	stats, err := m.Stats(ctx)
	testenv.Must(t, err)
	if stats.PID != m.PID || stats.Mount != m.Dir || Begun(stats) != int64(len(names)) {
		t.Errorf("%d files were begun, of %d; %+v", Begun(stats), len(names), stats)
	}
	if err := m.Alive(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if !gone(m.PID) {
		t.Error("the daemon is still there")
	}
	if err := m.Close(); err != nil {
		t.Error("closed twice: ", err)
	}
}

// TestBusy: a mount that somebody uses is taken away, and the error says who uses it.
func TestBusy(t *testing.T) {
	program := places(t)
	m, err := OpenMount(t.Context(), program, dataset(t, "4"), "--no-background")
	testenv.Must(t, err)
	held, err := os.Open(filepath.Join(m.Dir, "original"))
	testenv.Must(t, err)
	defer held.Close()
	if err := m.Close(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Error(err)
	}
	if !gone(m.PID) {
		t.Error("the daemon is still there")
	}
}

// TestApart: what one mount has prepared is not there for the next, unless both have a directory for it.
func TestApart(t *testing.T) {
	program := places(t)
	source, work := dataset(t, "12"), filepath.Join(t.TempDir(), "work")
	for _, c := range []struct {
		options []string
		made    int64
	}{{[]string{"--store", work, "--create-store"}, 12}, {[]string{"--store", work}, 0}, {nil, 12}, {nil, 12}} {
		m := open(t, program, source, c.options...)
		names, _ := list(t, filepath.Join(m.Dir, "scan5"))
		for _, name := range names {
			_, err := os.ReadFile(name)
			testenv.Must(t, err)
		}
		stats, err := m.Stats(t.Context())
		testenv.Must(t, err)
		for _, n := range stats.Counters {
			if n.Group == "serve" && n.Name == "samples made" && n.Value != c.made {
				t.Errorf("%v: %d samples were made, want %d", c.options, n.Value, c.made)
			}
		}
		testenv.Must(t, m.Close())
	}
}

// TestComplaint: one line, of whatever pipefs has printed.
func TestComplaint(t *testing.T) {
	for stderr, want := range map[string]string{
		"": "",
		"pipefs: mount /mnt: invalid argument\n(log: /tmp/log)\n":                                          "mount /mnt: invalid argument",
		"pipefs: note: /ds is empty\npipefs: mount /mnt: permission denied; nor by fusermount3:\nexit 1\n": "mount /mnt: permission denied; nor by fusermount3: exit 1",
		"looking\rpipefs: no\n": "looking pipefs: no",
		"killed\n":              "killed",
	} {
		if got := Complaint(stderr); got != want {
			t.Errorf("%q: %q, want %q", stderr, got, want)
		}
	}
}

// TestTail: of a log it is the line that says why the daemon ended.
func TestTail(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	m := &Mount{log: name}
	for text, want := range map[string]string{
		"a\nb\n\n": "b",
		"":         "",
		"a\npanic: oh\n\ngoroutine 1 [running]:\nmain.main()\n": "panic: oh",
		"fatal error: all goroutines are asleep\n\tx.go:1\n":    "fatal error: all goroutines are asleep",
	} {
		testenv.Must(t, os.WriteFile(name, []byte(text), 0o600))
		if got := m.tail(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
