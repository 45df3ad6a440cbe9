package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/internal/mounts"
)

// Controller is a part of the kernel that limits something, by its names in the two
// versions.
type Controller struct{ What, V1, V2 string }

// The controllers.
var (
	Reads  = Controller{"reads", "blkio", "io"}
	Memory = Controller{"memory", "memory", "memory"}
	CPU    = Controller{"processors", "cpu", "cpu"}
)

// ErrNone marks a limit for which there is no group on this machine, or none that this user
// may use.
var ErrNone = errors.New("no cgroup can be used for it")

// System is the files in which the kernel describes cgroups.
type System struct {
	Mounts []*mounts.Mount
	Self   string // the groups of a process, such as /proc/self/cgroup
}

// Here is the system of this process.
func Here() (System, error) {
	table, err := mounts.Within("/")
	return System{Mounts: table, Self: "/proc/self/cgroup"}, err
}

// Hierarchy is a tree of groups.
type Hierarchy struct {
	Root string
	V2   bool
}

// Hierarchy finds the tree that has a controller. A controller is in one version at a
// time.
func (s System) Hierarchy(c Controller) (Hierarchy, error) {
	unified := ""
	for _, m := range s.Mounts {
		switch {
		case m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), c.V1):
			return Hierarchy{Root: m.Mountpoint}, nil
		case m.FSType == "cgroup2":
			unified = m.Mountpoint
		}
	}
	if unified != "" {
		b, err := os.ReadFile(filepath.Join(unified, "cgroup.controllers"))
		if err == nil && slices.Contains(strings.Fields(string(b)), c.V2) {
			return Hierarchy{Root: unified, V2: true}, nil
		}
	}
	return Hierarchy{}, fmt.Errorf("no hierarchy is mounted that has it: %w", ErrNone)
}

// Group is the group that the process is in, from lines of NUMBER:CONTROLLERS:PATH. The
// line of version 2 has no controllers.
func (s System) Group(h Hierarchy, c Controller) (string, error) {
	b, err := os.ReadFile(s.Self)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && (h.V2 && parts[1] == "" || !h.V2 && slices.Contains(strings.Split(parts[1], ","), c.V1)) {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("%s does not tell the group of this process: %w", s.Self, ErrNone)
}

// Dir is the directory of the group that the process is in. A container sees its own group
// as the root, but may be told the path outside.
func (s System) Dir(h Hierarchy, c Controller) (string, error) {
	group, err := s.Group(h, c)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(h.Root, group)
	if _, err := os.Stat(dir); err != nil {
		return h.Root, nil
	}
	return dir, nil
}

// MemoryLimit is how many bytes the processes of the group, and of those around it, may
// use; ok is false where there is no limit.
func (s System) MemoryLimit() (limit int64, ok bool) {
	return least(s, Memory, limitOf)
}

func limitOf(h Hierarchy, dir string) (int64, bool) {
	if h.V2 {
		return number(filepath.Join(dir, "memory.max"))
	}
	// without a limit it is the largest number of whole pages
	n, ok := number(filepath.Join(dir, "memory.limit_in_bytes"))
	return n, ok && n < 1<<62
}

// CPULimit is how many processors the processes of the group, and of those around it, may
// use together; ok is false where there is no limit. Which processors they may use is
// another matter, see sched_getaffinity(2).
func (s System) CPULimit() (processors float64, ok bool) {
	return least(s, CPU, func(h Hierarchy, dir string) (float64, bool) {
		var quota, period int64
		if h.V2 {
			text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
			if _, bad := fmt.Sscan(string(text), &quota, &period); err != nil || bad != nil {
				return 0, false // "max", or the root
			}
		} else {
			quota, _ = number(filepath.Join(dir, "cpu.cfs_quota_us"))
			period, _ = number(filepath.Join(dir, "cpu.cfs_period_us"))
		}
		return float64(quota) / float64(period), quota > 0 && period > 0
	})
}

// least asks the group of a controller and all groups around it for a limit.
func least[T int64 | float64](s System, c Controller, ask func(h Hierarchy, dir string) (T, bool)) (limit T, ok bool) {
	h, err := s.Hierarchy(c)
	if err != nil {
		return 0, false
	}
	dir, err := s.Dir(h, c)
	if err != nil {
		return 0, false
	}
	for ; mounts.Below(dir, h.Root); dir = filepath.Dir(dir) {
		if n, has := ask(h, dir); has && (!ok || n < limit) {
			limit, ok = n, true
		}
		if dir == h.Root {
			break
		}
	}
	return limit, ok
}

// number reads a file that holds one.
func number(name string) (int64, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// field reads the number behind a word at the beginning of a line.
func field(name, word string) (int64, bool) {
	b, _ := os.ReadFile(name)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == word {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
