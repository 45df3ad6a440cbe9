package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestVersion2: what is written to the files of version 2, which are made up here,
// and how a missing controller is told.
func TestVersion2(t *testing.T) {
	dir := t.TempDir()
	n := &node{Hierarchy: Hierarchy{Root: filepath.Dir(dir), V2: true}, dir: dir}
	g := &Group{device: "8:16", reads: n, memory: n}
	for _, c := range []Controller{Reads, Memory} {
		for _, name := range filesOf(c, true) {
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
	s := System{
		Mounts: []*mounts.Mount{{FSType: "cgroup2", Mountpoint: dir}},
		Self:   write(t, filepath.Join(dir, "self"), "0::/\n"),
	}
	_, err := enter(s, dir, Limits{})
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "memory takes root") {
		t.Error(err)
	}
	// Version 2 with both, of which one cannot be turned on: the file that does it is
	// missing here, as is everything else that a kernel makes.
	write(t, filepath.Join(dir, "cgroup.controllers"), "io memory\n")
	if _, err = enter(s, dir, Limits{}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "cgroup.subtree_control") {
		t.Error(err)
	}
}
