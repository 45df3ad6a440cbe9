package cgroup

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
)

// Limits are what the processes of a group may use together. 0 is no limit.
type Limits struct {
	BytesPerSecond int64 // that are read from the disk
	// ReadsPerSecond are requests that reach the disk: a read(2) of what is cached is
	// none, a large one may be several.
	ReadsPerSecond int64
	Memory         int64 // bytes, the page cache of what they read included
}

// Group is a cgroup with this process in it: one directory, or one for each
// controller where these have hierarchies of their own.
type Group struct {
	device string // MAJOR:MINOR of the disk whose reads are limited
	nodes  []*node
	// reads and memory are the nodes that have the controllers. Where there is none, the
	// error says why.
	reads, memory     *node
	noReads, noMemory error
	now               Limits
}

// Enter makes a group for reads from the disk that holds path, puts this process into it,
// and sets limits. If l is zero, it succeeds where any limit could be set.
func Enter(path string, l Limits) (*Group, error) {
	s, err := Here()
	if err != nil {
		return nil, err
	}
	return enter(s, path, l)
}

func enter(s System, path string, l Limits) (_ *Group, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	g := &Group{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if g.device, g.noReads = deviceOf(path); g.noReads == nil {
		g.reads, g.noReads = g.join(s, Reads)
	}
	g.memory, g.noMemory = g.join(s, Memory)
	if g.reads == nil && g.memory == nil {
		return nil, errors.Join(g.noReads, g.noMemory)
	}
	if err := g.Set(l); err != nil {
		return nil, err
	}
	return g, nil
}

// join finds or makes the directory of this group in which a controller is.
func (g *Group) join(s System, c Controller) (*node, error) {
	n, err := g.place(s, c)
	if err != nil {
		if !errors.Is(err, ErrNone) {
			err = fmt.Errorf("%w: %w", ErrNone, err)
		}
		return nil, fmt.Errorf("limiting %s takes root, and the controller %s of cgroups of version 1 or %s of version 2: %w", c.What, c.V1, c.V2, err)
	}
	return n, nil
}

func (g *Group) place(s System, c Controller) (*node, error) {
	h, err := s.Hierarchy(c)
	if err != nil {
		return nil, err
	}
	if h.V2 {
		// In version 2 only the root may have both processes and groups with controllers.
		if err := set(filepath.Join(h.Root, "cgroup.subtree_control"), "+"+c.V2); err != nil {
			return nil, err
		}
	}
	var n *node
	for _, have := range g.nodes {
		if have.Hierarchy == h {
			n = have
		}
	}
	if n == nil {
		if n, err = enterGroup(s, h, c); err != nil {
			return nil, err
		}
		g.nodes = append(g.nodes, n)
	}
	// A kernel may have the controller without its limits.
	for _, name := range filesOf(c, h.V2) {
		if _, err := os.Stat(filepath.Join(n.dir, name)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Add puts another process into the group, with all that it starts from then on.
func (g *Group) Add(pid int) error {
	for _, n := range g.nodes {
		if err := move(n.dir, pid); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}

// Reads says what limits reads, for reports; "" where nothing can.
func (g *Group) Reads() string {
	switch {
	case g.reads == nil:
		return ""
	case g.reads.V2:
		return "cgroup v2, io.max"
	}
	return "cgroup v1, blkio.throttle"
}

// Memory says what limits memory, for reports; "" where nothing can.
func (g *Group) Memory() string {
	switch {
	case g.memory == nil:
		return ""
	case g.memory.V2:
		return "cgroup v2, memory.max"
	}
	return "cgroup v1, memory.limit_in_bytes"
}

// String says what limits reads and memory.
func (g *Group) String() string {
	return strings.TrimPrefix(strings.TrimSuffix(g.Reads()+"; "+g.Memory(), "; "), "; ")
}

// Set changes the limits. Memory can only be limited to more than what is in use
// and cannot be freed.
func (g *Group) Set(l Limits) error {
	if l.BytesPerSecond < 0 || l.ReadsPerSecond < 0 || l.Memory < 0 {
		return fmt.Errorf("limits below zero: %+v", l)
	}
	if l.BytesPerSecond != g.now.BytesPerSecond || l.ReadsPerSecond != g.now.ReadsPerSecond {
		if g.reads == nil {
			return g.noReads
		}
		for _, s := range g.reads.readLimits(g.device, l) {
			if err := set(filepath.Join(g.reads.dir, s.file), s.text); err != nil {
				return fmt.Errorf("limiting reads from %s: %w", g.device, err)
			}
		}
		g.now.BytesPerSecond, g.now.ReadsPerSecond = l.BytesPerSecond, l.ReadsPerSecond
	}
	if l.Memory != g.now.Memory {
		if g.memory == nil {
			return g.noMemory
		}
		s := g.memory.memoryLimit(l)
		if err := set(filepath.Join(g.memory.dir, s.file), s.text); err != nil {
			return fmt.Errorf("limiting memory to %d bytes: %w", l.Memory, err)
		}
		g.now.Memory = l.Memory
	}
	return nil
}

// Close leaves the group and removes it. Processes that still run in it are moved to the
// group where this process was before, which has no such limits.
func (g *Group) Close() error {
	var errs []error
	for _, n := range g.nodes {
		errs = append(errs, n.leave())
	}
	g.nodes, g.reads, g.memory, g.now = nil, nil, nil, Limits{}
	g.noReads = errors.New("the group is closed")
	g.noMemory = g.noReads
	return errors.Join(errs...)
}

// filesOf are those that limits are written to.
func filesOf(c Controller, v2 bool) []string {
	n := node{Hierarchy: Hierarchy{V2: v2}}
	if c == Memory {
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
	Hierarchy
	dir  string
	home string // the directory of the group in which this process was before
}

const prefix = "pipefs-bench-" // followed by PID-NUMBER

// numbers tells the groups of one process apart.
var numbers atomic.Int64

// enterGroup makes a directory and puts this process into it.
func enterGroup(s System, h Hierarchy, c Controller) (*node, error) {
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
		return "", fmt.Errorf("reads of %s cannot be limited, as it is on no disk of its own (device %s): %w", path, device, ErrNone)
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
