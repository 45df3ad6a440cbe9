package throttle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/internal/cgroup"
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

// ErrNoCgroup marks a limit that cannot be set on this machine, or not by this user.
var ErrNoCgroup = cgroup.ErrNone

// Enter makes a group for reads from the disk that holds path, puts this process into it,
// and sets limits. If l is zero, it succeeds where any limit could be set.
func Enter(path string, l Limits) (*Group, error) {
	s, err := cgroup.Here()
	if err != nil {
		return nil, err
	}
	return enter(s, path, l)
}

func enter(s cgroup.System, path string, l Limits) (_ *Group, err error) {
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
		g.reads, g.noReads = g.join(s, cgroup.Reads)
	}
	g.memory, g.noMemory = g.join(s, cgroup.Memory)
	if g.reads == nil && g.memory == nil {
		return nil, errors.Join(g.noReads, g.noMemory)
	}
	if err := g.Set(l); err != nil {
		return nil, err
	}
	return g, nil
}

// join finds or makes the directory of this group in which a controller is.
func (g *Group) join(s cgroup.System, c cgroup.Controller) (*node, error) {
	n, err := g.place(s, c)
	if err != nil {
		if !errors.Is(err, ErrNoCgroup) {
			err = fmt.Errorf("%w: %w", ErrNoCgroup, err)
		}
		return nil, fmt.Errorf("limiting %s takes root, and the controller %s of cgroups of version 1 or %s of version 2: %w", c.What, c.V1, c.V2, err)
	}
	return n, nil
}

func (g *Group) place(s cgroup.System, c cgroup.Controller) (*node, error) {
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
