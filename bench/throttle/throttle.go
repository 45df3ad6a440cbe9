package throttle

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Group is a cgroup with this process in it.
type Group struct {
	dir    string // of the group
	home   string // cgroup.procs of where the process was before
	device string // MAJOR:MINOR
	v2     bool
}

// ErrNoCgroup says that there is no cgroup hierarchy in which reads can be limited.
var ErrNoCgroup = errors.New("no cgroup hierarchy that limits reads (blkio of version 1, or io of version 2) can be used here")

// Enter makes a group for reads from the disk that holds path, and puts this
// process into it. Nothing is limited yet.
func Enter(path string) (_ *Group, err error) {
	device, err := deviceOf(path)
	if err != nil {
		return nil, err
	}
	root, v2, err := hierarchy("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	before, err := groupOf("/proc/self/cgroup", v2)
	if err != nil {
		return nil, err
	}
	g := &Group{
		dir:    filepath.Join(root, fmt.Sprintf("pipefs-bench-%d", os.Getpid())),
		home:   filepath.Join(root, before, "cgroup.procs"),
		device: device, v2: v2,
	}
	if v2 {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+io"), 0o644); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoCgroup, err)
		}
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCgroup, err)
	}
	if err := g.move(filepath.Join(g.dir, "cgroup.procs")); err != nil {
		return nil, errors.Join(err, os.Remove(g.dir))
	}
	return g, nil
}

// String says which kind of cgroup it is, for reports.
func (g *Group) String() string {
	if g.v2 {
		return "cgroup v2, io.max"
	}
	return "cgroup v1, blkio.throttle"
}

// Read limits reads to so many bytes a second; 0 is no limit.
func (g *Group) Read(bytesPerSecond int64) error {
	if g.v2 {
		limit := "max"
		if bytesPerSecond > 0 {
			limit = strconv.FormatInt(bytesPerSecond, 10)
		}
		return g.write("io.max", g.device+" rbps="+limit)
	}
	return g.write("blkio.throttle.read_bps_device", fmt.Sprintf("%s %d", g.device, bytesPerSecond))
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o644)
}

// move puts this process into a group.
func (g *Group) move(procs string) error {
	return os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// Close leaves the group and removes it. All that was started in it must have
// ended.
func (g *Group) Close() error {
	return errors.Join(g.move(g.home), os.Remove(g.dir))
}

// deviceOf is the disk, not the partition, that holds a file: limits are for whole
// disks.
func deviceOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	sys := "/sys/dev/block/" + device
	if _, err := os.Stat(sys); err != nil {
		return "", fmt.Errorf("%s is on no disk: %w", path, ErrNoCgroup)
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

// hierarchy finds where groups that limit reads are made.
func hierarchy(mounts string) (root string, v2 bool, err error) {
	f, err := os.Open(mounts)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	var unified string
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		switch {
		case len(words) < 4:
		case words[2] == "cgroup" && has(words[3], "blkio"):
			return words[1], false, nil
		case words[2] == "cgroup2":
			unified = words[1]
		}
	}
	if unified == "" {
		return "", false, ErrNoCgroup
	}
	controllers, err := os.ReadFile(filepath.Join(unified, "cgroup.controllers"))
	if err != nil || !has(strings.ReplaceAll(strings.TrimSpace(string(controllers)), " ", ","), "io") {
		return "", false, ErrNoCgroup
	}
	return unified, true, nil
}

// groupOf is the group that a process is in, from /proc/PID/cgroup: lines of
// NUMBER:CONTROLLERS:PATH, of which version 2 has the one without controllers.
func groupOf(file string, v2 bool) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (v2 && parts[1] == "" || !v2 && has(parts[1], "blkio")) {
			return parts[2], nil
		}
	}
	return "", ErrNoCgroup
}

func has(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
