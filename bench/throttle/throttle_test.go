package throttle

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestThrottle reads 20 MB at 20 MB/s, which takes at least most of a second, and
// leaves no group behind.
func TestThrottle(t *testing.T) {
	dir := t.TempDir()
	g, err := Enter(dir)
	if errors.Is(err, ErrNoCgroup) || errors.Is(err, os.ErrPermission) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "data")
	if err := os.WriteFile(name, make([]byte, 20e6), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func() time.Duration {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := errors.Join(unix.Fsync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := f.Read(make([]byte, 20e6)); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	if err := g.Read(20e6); err != nil {
		t.Fatal(err)
	}
	slow := read()
	if err := g.Read(0); err != nil {
		t.Fatal(err)
	}
	// No limit on how fast: other work may be running. But how slow it must be is
	// what was asked for.
	if slow < 700*time.Millisecond {
		t.Errorf("20 MB at 20 MB/s took %v", slow)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(g.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left behind: %v", g.dir, err)
	}
}

func TestHierarchy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	both := write("both", "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n")
	if root, v2, err := hierarchy(both); root != "/sys/fs/cgroup/blkio" || v2 || err != nil {
		t.Errorf("version 1 beside 2: %s, %v, %v", root, v2, err)
	}
	write("cgroup.controllers", "cpuset cpu io memory\n")
	if root, v2, err := hierarchy(write("two", "cgroup2 "+dir+" cgroup2 rw 0 0\n")); root != dir || !v2 || err != nil {
		t.Errorf("version 2: %s, %v, %v", root, v2, err)
	}
	write("cgroup.controllers", "cpuset cpu memory\n")
	if _, _, err := hierarchy(filepath.Join(dir, "two")); !errors.Is(err, ErrNoCgroup) {
		t.Errorf("version 2 without io: %v", err)
	}
	groups := write("groups", "9:blkio:/a\n1:name=systemd:/b\n0::/c\n")
	for v2, want := range map[bool]string{false: "/a", true: "/c"} {
		if got, err := groupOf(groups, v2); got != want || err != nil {
			t.Errorf("version 2 %v: in %q, %v", v2, got, err)
		}
	}
}
