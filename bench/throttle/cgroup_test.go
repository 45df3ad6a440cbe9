package throttle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	testenv.Must(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func TestHierarchy(t *testing.T) {
	dir := t.TempDir()
	both := system{mounts: []*mounts.Mount{
		{FSType: "cgroup2", Mountpoint: "/sys/fs/cgroup/unified", VFSOptions: "rw"},
		{FSType: "cgroup", Mountpoint: "/sys/fs/cgroup/blkio", VFSOptions: "rw,blkio"},
		{FSType: "cgroup", Mountpoint: "/sys/fs/cgroup/m", VFSOptions: "rw,memory,pids"},
	}}
	for c, want := range map[controller]string{readsController: "/sys/fs/cgroup/blkio", memoryController: "/sys/fs/cgroup/m"} {
		if h, err := both.hierarchy(c); h != (hierarchy{root: want}) || err != nil {
			t.Errorf("version 1 beside 2: %+v, %v", h, err)
		}
	}
	two := system{mounts: []*mounts.Mount{{FSType: "cgroup2", Mountpoint: dir}}}
	write(t, filepath.Join(dir, "cgroup.controllers"), "cpuset cpu io memory\n")
	for _, c := range []controller{readsController, memoryController} {
		if h, err := two.hierarchy(c); h != (hierarchy{dir, true}) || err != nil {
			t.Errorf("version 2: %+v, %v", h, err)
		}
	}
	write(t, filepath.Join(dir, "cgroup.controllers"), "cpuset cpu memory\n")
	if _, err := two.hierarchy(readsController); !errors.Is(err, ErrNoCgroup) {
		t.Errorf("version 2 without io: %v", err)
	}
	if h, err := two.hierarchy(memoryController); !h.v2 || err != nil {
		t.Errorf("version 2 without io: memory %+v, %v", h, err)
	}
	s := system{self: write(t, filepath.Join(dir, "groups"), "9:blkio:/a\n4:cpu,memory:/d:1\n1:name=systemd:/b\n0::/c\n")}
	for _, c := range []struct {
		v2   bool
		c    controller
		want string
	}{{false, readsController, "/a"}, {false, memoryController, "/d:1"}, {true, readsController, "/c"}, {true, memoryController, "/c"}} {
		if got, err := s.group(hierarchy{v2: c.v2}, c.c); got != c.want || err != nil {
			t.Errorf("version 2 %v, %s: in %q, %v", c.v2, c.c.what, got, err)
		}
	}
	s.self = write(t, filepath.Join(dir, "none"), "9:cpu:/a\n")
	if _, err := s.group(hierarchy{}, readsController); !errors.Is(err, ErrNoCgroup) {
		t.Error(err)
	}
}

// TestVersion2: what is written to the files of version 2, which are made up here,
// and how a missing controller is told.
func TestVersion2(t *testing.T) {
	dir := t.TempDir()
	n := &node{hierarchy: hierarchy{root: filepath.Dir(dir), v2: true}, dir: dir}
	g := &Group{device: "8:16", reads: n, memory: n}
	for _, c := range []controller{readsController, memoryController} {
		for _, name := range c.files(true) {
			write(t, filepath.Join(dir, name), "")
		}
	}
	for _, c := range []struct {
		l           Limits
		io, memory  string
		description string
	}{
		{Limits{BytesPerSecond: 50e6}, "8:16 rbps=50000000 riops=max", "", "bytes"},
		{Limits{BytesPerSecond: 50e6, ReadsPerSecond: 120}, "8:16 rbps=50000000 riops=120", "", "both"},
		{Limits{ReadsPerSecond: 120, Memory: 1 << 30}, "8:16 rbps=max riops=120", "1073741824", "memory, too"},
		{Limits{}, "8:16 rbps=max riops=max", "max", "none"},
	} {
		for _, name := range []string{"io.max", "memory.max"} { // the kernel's show nothing of what was before
			write(t, filepath.Join(dir, name), "")
		}
		testenv.Must(t, g.Set(c.l))
		for name, want := range map[string]string{"io.max": c.io, "memory.max": c.memory} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != want || err != nil {
				t.Errorf("%s: %s has %q, want %q (%v)", c.description, name, b, want, err)
			}
		}
	}
	if g.Reads() != "cgroup v2, io.max" || g.Memory() != "cgroup v2, memory.max" {
		t.Error(g.Reads(), g.Memory())
	}
}

// TestMissing: an error says which controller is missing, and of what.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cgroup.controllers"), "cpu\n")
	s := system{
		mounts: []*mounts.Mount{{FSType: "cgroup2", Mountpoint: dir}},
		self:   write(t, filepath.Join(dir, "self"), "0::/\n"),
	}
	_, err := enter(s, dir, Limits{})
	if !errors.Is(err, ErrNoCgroup) || !strings.Contains(err.Error(), "memory takes root") {
		t.Error(err)
	}
	// Version 2 with both, of which one cannot be turned on: the file that does it is
	// missing here, as is everything else that a kernel makes.
	write(t, filepath.Join(dir, "cgroup.controllers"), "io memory\n")
	if _, err = enter(s, dir, Limits{}); !errors.Is(err, ErrNoCgroup) || !strings.Contains(err.Error(), "cgroup.subtree_control") {
		t.Error(err)
	}
}
