package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Type is what the table calls a mount of pipefs.
const Type = "fuse.pipefs"

// Mount is one line of the table, see proc(5).
type Mount mountinfo.Info

// Ours reports whether pipefs made the mount.
func (m *Mount) Ours() bool { return m.FSType == Type }

// Owner is the user who made a FUSE mount; ok is false for other mounts.
func (m *Mount) Owner() (uid int, ok bool) {
	for option := range strings.SplitSeq(m.VFSOptions, ",") {
		if id, found := strings.CutPrefix(option, "user_id="); found {
			uid, err := strconv.Atoi(id)
			return uid, err == nil
		}
	}
	return 0, false
}

// dev is major:minor of the file system.
func (m *Mount) dev() string { return fmt.Sprintf("%d:%d", m.Major, m.Minor) }

// read reads the table that a process sees, a directory of /proc.
func read(proc string) ([]*mountinfo.Info, error) {
	f, err := os.Open(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("the table of mounts: %w", err)
	}
	defer f.Close()
	table, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil, fmt.Errorf("the table of mounts: %w", err)
	}
	return table, nil
}

// find returns the last mount of the table that takes more of a path than those before;
// takes is the length, and negative for none. nil where there is none.
func find(takes func(*Mount) int) (*Mount, error) {
	table, err := read("/proc/self")
	best := -1
	var found *Mount
	for _, line := range table {
		if m := (*Mount)(line); takes(m) >= max(best, 0) {
			best, found = takes(m), m
		}
	}
	return found, err
}

// At finds what is mounted at exactly this path, nil where that is nothing. What was
// mounted there last hides the others.
func At(path string) (*Mount, error) {
	return find(func(m *Mount) int {
		if m.Mountpoint != path {
			return -1
		}
		return 0
	})
}

// Holding finds the mount that a path lies in.
func Holding(path string) (*Mount, error) {
	return find(func(m *Mount) int {
		if !Below(path, m.Mountpoint) {
			return -1
		}
		return len(m.Mountpoint)
	})
}

// Within are the mounts at or below a directory.
func Within(dir string) (found []*Mount, err error) {
	table, err := read("/proc/self")
	for _, line := range table {
		if Below(line.Mountpoint, dir) {
			found = append(found, (*Mount)(line))
		}
	}
	return found, err
}

// Below reports whether path is dir or lies below it; both are clean.
func Below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
