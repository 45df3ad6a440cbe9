package throttle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cgroup"
)

// filesOf are those that limits are written to.
func filesOf(c cgroup.Controller, v2 bool) []string {
	n := node{Hierarchy: cgroup.Hierarchy{V2: v2}}
	if c == cgroup.Memory {
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
	if n.V2 {
		return []setting{{"io.max", fmt.Sprintf("%s rbps=%s riops=%s", device, orMax(l.BytesPerSecond), orMax(l.ReadsPerSecond))}}
	}
	return []setting{ // 0 removes a limit
		{"blkio.throttle.read_bps_device", fmt.Sprintf("%s %d", device, l.BytesPerSecond)},
		{"blkio.throttle.read_iops_device", fmt.Sprintf("%s %d", device, l.ReadsPerSecond)},
	}
}

func (n *node) memoryLimit(l Limits) setting {
	switch {
	case n.V2:
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

// node is a directory of a group.
type node struct {
	cgroup.Hierarchy
	dir  string
	home string // the directory of the group in which this process was before
}

const prefix = "pipefs-bench-" // followed by PID-NUMBER

// numbers tells the groups of one process apart.
var numbers atomic.Int64

// enterGroup makes a directory and puts this process into it.
func enterGroup(s cgroup.System, h cgroup.Hierarchy, c cgroup.Controller) (*node, error) {
	home, err := s.Dir(h, c)
	if err != nil {
		return nil, err
	}
	n := &node{Hierarchy: h, home: home}
	// The new group is inside the present one, so that its limits still hold. In version
	// 2 a group with processes in it cannot have such groups.
	parent := n.home
	if h.V2 {
		parent = h.Root
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
			if errors.Is(e, os.ErrNotExist) && n.home != n.Root { // home is gone
				e = move(n.Root, pid)
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

// deviceOf is the disk that holds a file. It is not the partition: limits are for whole
// disks.
func deviceOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	sys := "/sys/dev/block/" + device
	if _, err := os.Stat(sys); err != nil {
		return "", fmt.Errorf("reads of %s cannot be limited, as it is on no disk of its own (device %s): %w", path, device, ErrNoCgroup)
	}
	if _, err := os.Stat(filepath.Join(sys, "partition")); err != nil {
		return device, nil
	}
	real, err := filepath.EvalSymlinks(sys)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(real), "dev"))
	return strings.TrimSpace(string(b)), err
}
