package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	testenv.Must(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func TestHierarchy(t *testing.T) {
	dir := t.TempDir()
	both := System{Mounts: []*mounts.Mount{
		{FSType: "cgroup2", Mountpoint: "/sys/fs/cgroup/unified", VFSOptions: "rw"},
		{FSType: "cgroup", Mountpoint: "/sys/fs/cgroup/blkio", VFSOptions: "rw,blkio"},
		{FSType: "cgroup", Mountpoint: "/sys/fs/cgroup/m", VFSOptions: "rw,memory,pids"},
	}}
	for c, want := range map[Controller]string{Reads: "/sys/fs/cgroup/blkio", Memory: "/sys/fs/cgroup/m"} {
		if h, err := both.Hierarchy(c); h != (Hierarchy{Root: want}) || err != nil {
			t.Errorf("version 1 beside 2: %+v, %v", h, err)
		}
	}
	two := System{Mounts: []*mounts.Mount{{FSType: "cgroup2", Mountpoint: dir}}}
	write(t, filepath.Join(dir, "cgroup.controllers"), "cpuset cpu io memory\n")
	for _, c := range []Controller{Reads, Memory} {
		if h, err := two.Hierarchy(c); h != (Hierarchy{dir, true}) || err != nil {
			t.Errorf("version 2: %+v, %v", h, err)
		}
	}
	write(t, filepath.Join(dir, "cgroup.controllers"), "cpuset cpu memory\n")
	if _, err := two.Hierarchy(Reads); !errors.Is(err, ErrNone) {
		t.Errorf("version 2 without io: %v", err)
	}
	if h, err := two.Hierarchy(Memory); !h.V2 || err != nil {
		t.Errorf("version 2 without io: memory %+v, %v", h, err)
	}
	s := System{Self: write(t, filepath.Join(dir, "groups"), "9:blkio:/a\n4:cpu,memory:/d:1\n1:name=systemd:/b\n0::/c\n")}
	for _, c := range []struct {
		v2   bool
		c    Controller
		want string
	}{{false, Reads, "/a"}, {false, Memory, "/d:1"}, {true, Reads, "/c"}, {true, Memory, "/c"}} {
		if got, err := s.Group(Hierarchy{V2: c.v2}, c.c); got != c.want || err != nil {
			t.Errorf("version 2 %v, %s: in %q, %v", c.v2, c.c.What, got, err)
		}
	}
	s.Self = write(t, filepath.Join(dir, "none"), "9:cpu:/a\n")
	if _, err := s.Group(Hierarchy{}, Reads); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// TestLimits: the tightest of the group and of those around it.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	two := System{Mounts: []*mounts.Mount{{FSType: "cgroup2", Mountpoint: dir}}, Self: write(t, filepath.Join(dir, "self"), "0::/job/step\n")}
	write(t, filepath.Join(dir, "cgroup.controllers"), "cpu memory\n")
	if n, ok := two.MemoryLimit(); ok {
		t.Errorf("without a limit: %d", n)
	}
	write(t, filepath.Join(dir, "job/memory.max"), "1000000\n")
	write(t, filepath.Join(dir, "job/step/memory.max"), "max\n")
	write(t, filepath.Join(dir, "job/cpu.max"), "350000 100000\n")
	write(t, filepath.Join(dir, "job/step/cpu.max"), "max 100000\n")
	if n, ok := two.MemoryLimit(); n != 1000000 || !ok {
		t.Errorf("memory of version 2: %d, %v", n, ok)
	}
	if n, ok := two.CPULimit(); n != 3.5 || !ok {
		t.Errorf("processors of version 2: %v, %v", n, ok)
	}
	write(t, filepath.Join(dir, "job/step/memory.max"), "7000\n")
	if n := two.Memory(); n != 7000 {
		t.Errorf("the tighter one is inside: %d", n)
	}
	write(t, filepath.Join(dir, "job/step/memory.current"), "6500\n")
	write(t, filepath.Join(dir, "job/step/memory.stat"), "anon 6000\ninactive_file 300\nactive_file 100\n")
	write(t, filepath.Join(dir, "job/memory.current"), "999800\n")
	if n := two.Free(); n != 200 {
		t.Errorf("free of the group around: %d", n)
	}
	write(t, filepath.Join(dir, "job/memory.current"), "6500\n")
	if n := two.Free(); n != 900 {
		t.Errorf("free, without the page cache: %d", n)
	}
	one := System{Mounts: []*mounts.Mount{
		{FSType: "cgroup", Mountpoint: filepath.Join(dir, "m"), VFSOptions: "rw,memory"},
		{FSType: "cgroup", Mountpoint: filepath.Join(dir, "c"), VFSOptions: "rw,cpu,cpuacct"},
	}, Self: write(t, filepath.Join(dir, "self1"), "3:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n")}
	// in a container, which is told the path outside
	write(t, filepath.Join(dir, "m/memory.limit_in_bytes"), "9223372036854771712\n")
	write(t, filepath.Join(dir, "c/cpu.cfs_quota_us"), "-1\n")
	write(t, filepath.Join(dir, "c/cpu.cfs_period_us"), "100000\n")
	if n, ok := one.MemoryLimit(); ok {
		t.Errorf("version 1 without a limit: %d", n)
	}
	if n, ok := one.CPULimit(); ok {
		t.Errorf("version 1 without a limit: %v", n)
	}
	write(t, filepath.Join(dir, "m/memory.limit_in_bytes"), "4096\n")
	write(t, filepath.Join(dir, "m/memory.usage_in_bytes"), "4000\n")
	write(t, filepath.Join(dir, "m/memory.stat"), "inactive_file 1\ntotal_inactive_file 904\n")
	if n := one.Free(); n != 1000 {
		t.Errorf("free of version 1: %d", n)
	}
	write(t, filepath.Join(dir, "c/cpu.cfs_quota_us"), "50000\n")
	if n, ok := one.MemoryLimit(); n != 4096 || !ok {
		t.Errorf("memory of version 1: %d, %v", n, ok)
	}
	if n, ok := one.CPULimit(); n != 0.5 || !ok {
		t.Errorf("processors of version 1: %v, %v", n, ok)
	}
}
