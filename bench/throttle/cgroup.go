package throttle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// controller is a part of the kernel that limits something, by its names in the two
// versions.
type controller struct{ what, v1, v2 string }

var (
	readsController  = controller{"reads", "blkio", "io"}
	memoryController = controller{"memory", "memory", "memory"}
)

// files are those that limits are written to.
func (c controller) files(v2 bool) []string {
	n := node{hierarchy: hierarchy{v2: v2}}
	if c == memoryController {
		return []string{n.memoryLimit(Limits{}).file}
	}
	var names []string
	for _, s := range n.readLimits("", Limits{}) {
		names = append(names, s.file)
	}
	return names
}

// setting is what is written to a file of a group.
type setting struct{ file, text string }

// readLimits are the settings for a disk.
func (n *node) readLimits(device string, l Limits) []setting {
	if n.v2 {
		return []setting{{"io.max", fmt.Sprintf("%s rbps=%s riops=%s", device, orMax(l.BytesPerSecond), orMax(l.ReadsPerSecond))}}
	}
	return []setting{ // 0 removes a limit
		{"blkio.throttle.read_bps_device", fmt.Sprintf("%s %d", device, l.BytesPerSecond)},
		{"blkio.throttle.read_iops_device", fmt.Sprintf("%s %d", device, l.ReadsPerSecond)},
	}
}

func (n *node) memoryLimit(l Limits) setting {
	switch {
	case n.v2:
		return setting{"memory.max", orMax(l.Memory)}
	case l.Memory == 0:
		return setting{"memory.limit_in_bytes", "-1"}
	}
	return setting{"memory.limit_in_bytes", strconv.FormatInt(l.Memory, 10)}
}

// orMax is a limit as version 2 has it.
func orMax(n int64) string {
	if n == 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

// set writes to an existing file, which the kernel has made. It never makes one.
func set(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// system is the files in which the kernel describes cgroups.
type system struct {
	mounts []*mounts.Mount
	self   string // the groups of this process
}

// hierarchy is a tree of groups.
type hierarchy struct {
	root string
	v2   bool
}

// hierarchy finds the tree that has a controller. A controller is in one version at a
// time.
func (s system) hierarchy(c controller) (hierarchy, error) {
	unified := ""
	for _, m := range s.mounts {
		switch {
		case m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), c.v1):
			return hierarchy{root: m.Mountpoint}, nil
		case m.FSType == "cgroup2":
			unified = m.Mountpoint
		}
	}
	if unified != "" {
		b, err := os.ReadFile(filepath.Join(unified, "cgroup.controllers"))
		if err == nil && slices.Contains(strings.Fields(string(b)), c.v2) {
			return hierarchy{root: unified, v2: true}, nil
		}
	}
	return hierarchy{}, fmt.Errorf("no hierarchy is mounted that has it: %w", ErrNoCgroup)
}

// group is the group that this process is in, from lines of NUMBER:CONTROLLERS:PATH. The
// line of version 2 has no controllers.
func (s system) group(h hierarchy, c controller) (string, error) {
	b, err := os.ReadFile(s.self)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && (h.v2 && parts[1] == "" || !h.v2 && slices.Contains(strings.Split(parts[1], ","), c.v1)) {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("%s does not tell the group of this process: %w", s.self, ErrNoCgroup)
}

// node is a directory of a group.
type node struct {
	hierarchy
	dir  string
	home string // the directory of the group in which this process was before
}

const prefix = "pipefs-bench-" // followed by PID-NUMBER

// numbers tells the groups of one process apart.
var numbers atomic.Int64

// enter makes a directory and puts this process into it.
func (s system) enter(h hierarchy, c controller) (*node, error) {
	group, err := s.group(h, c)
	if err != nil {
		return nil, err
	}
	n := &node{hierarchy: h, home: filepath.Join(h.root, group)}
	if _, err := os.Stat(n.home); err != nil {
		// A container sees its own group as the root, but may be told the path outside.
		n.home = h.root
	}
	// The new group is inside the present one, so that its limits still hold. In version
	// 2 a group with processes in it cannot have such groups.
	parent := n.home
	if h.v2 {
		parent = h.root
	}
	removeStale(parent)
	for {
		n.dir = filepath.Join(parent, fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), numbers.Add(1)))
		err := os.Mkdir(n.dir, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	if err := move(n.dir, os.Getpid()); err != nil {
		return nil, errors.Join(err, os.Remove(n.dir))
	}
	return n, nil
}

// move puts a process into a group.
func move(dir string, pid int) error {
	return set(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
}

// removeStale removes the groups of runs that were killed. A group with a running process
// cannot be removed.
func removeStale(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		id, ours := strings.CutPrefix(e.Name(), prefix)
		id, _, _ = strings.Cut(id, "-")
		pid, err := strconv.Atoi(id)
		if !ours || err != nil || pid <= 0 || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		removeStale(dir)
		_ = unix.Rmdir(dir)
	}
}

// patience is how long to wait for killed processes.
const patience = 5 * time.Second

// leave moves all processes back and removes the directory.
func (n *node) leave() error {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(filepath.Join(n.dir, "cgroup.procs"))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		for word := range strings.FieldsSeq(string(b)) {
			pid, bad := strconv.Atoi(word)
			if bad != nil || pid == 0 { // of another namespace
				continue
			}
			e := move(n.home, pid)
			if errors.Is(e, os.ErrNotExist) && n.home != n.root { // home is gone
				e = move(n.root, pid)
			}
			if !errors.Is(e, unix.ESRCH) { // it has ended
				err = errors.Join(err, e)
			}
		}
		if err == nil {
			err = unix.Rmdir(n.dir)
		}
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the cgroup %s stays behind: %w", n.dir, err)
		}
	}
}
