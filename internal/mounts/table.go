// Package mounts knows what is mounted where, and how to take it away.
//
// # Nouns
//
// The table is the kernel's list of mounts, /proc/self/mountinfo; a [Mount] is a
// line of it. A mount of ours has the type [Type]. A mount is dead where its
// daemon is gone but the kernel still has it: every access then fails with
// "Transport endpoint is not connected".
//
// Nothing here trusts a mount to answer: a daemon may hang, so whatever touches
// a path below a mount is given a few seconds and then called hung.
package mounts

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
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

// inContainers is what a container needs to mount.
const inContainers = "a container needs --device /dev/fuse --cap-add SYS_ADMIN, and under AppArmor --security-opt apparmor=unconfined as well"

// CheckFUSE says whether this process can mount at dir, or in general where dir is
// empty, and if not what is missing.
func CheckFUSE(dir string) error {
	const device = "/dev/fuse"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		unix.Close(fd)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return fmt.Errorf("there is no %s (%w): %s; on the host itself load the module: modprobe fuse", device, err, inContainers)
	case errors.Is(err, unix.EPERM): // the device cgroup of a container
		return fmt.Errorf("%s may not be opened (%w): %s", device, err, inContainers)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("user %s may not open %s%s: %w; an administrator allows it with chmod 666 %s (which is what the package fuse3 does)",
			username(), device, permissions(device), err, device)
	default:
		return fmt.Errorf("opening %s: %w", device, err)
	}
	switch {
	case capable(unix.CAP_SYS_ADMIN):
		return nil
	case os.Geteuid() == 0:
		return fmt.Errorf("root may not mount here (%w), because CAP_SYS_ADMIN is missing: %s", fs.ErrPermission, inContainers)
	}
	tool, err := Fusermount()
	if err == nil {
		err = gainsRoot(tool)
	}
	if err == nil {
		err = named(tool)
	}
	if err != nil {
		return err
	}
	// fusermount3 demands it: nobody shall hide the files of others
	if dir == "" {
		return nil
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return fmt.Errorf("user %s may not write to the mount directory %s (%w), and so may not mount there; take a directory of your own", username(), dir, err)
	}
	return nil
}

// Fusermount finds the tool that mounts and unmounts for users without
// privileges.
func Fusermount() (string, error) {
	for _, name := range []string{"fusermount3", "fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("fusermount3 was not found, and user %s needs it to mount and unmount; it comes with the package fuse3 (apt install fuse3, dnf install fuse3)", username())
}

// powerless says why a program such as fusermount3 cannot mount for a user: it has no more
// rights than who starts it.
func powerless(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	capabilities, _ := unix.Getxattr(path, "security.capability", nil)
	if (st.Uid != 0 || st.Mode&unix.S_ISUID == 0) && capabilities <= 0 {
		return fmt.Errorf("%s%s is not setuid root, and so cannot mount for user %s", path, permissions(path), username())
	}
	var on unix.Statfs_t
	if unix.Statfs(path, &on) == nil && on.Flags&unix.ST_NOSUID != 0 {
		return fmt.Errorf("%s lies on a file system that is mounted nosuid, and so cannot mount for user %s", path, username())
	}
	return nil
}

// named says why a tool does not mount for a user without a name, as containers may have.
func named(tool string) error {
	uid := strconv.Itoa(os.Geteuid())
	if _, err := user.LookupId(uid); err == nil {
		return nil
	}
	// what looks further than /etc/passwd
	if failed := (*exec.ExitError)(nil); !errors.As(exec.Command("id", "-nu").Run(), &failed) {
		return nil
	}
	return fmt.Errorf("%s does not mount for user %s, who has no name here (%w); an administrator gives one: echo 'me:x:%s:%d::/:/bin/sh' >>/etc/passwd",
		tool, uid, fs.ErrPermission, uid, os.Getegid())
}

// gainsRoot says why a tool cannot mount for this user, and what to ask for.
func gainsRoot(tool string) error {
	if locked, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && locked == 1 {
		return fmt.Errorf("%s cannot mount for user %s, because this process may not gain privileges (%w); an administrator allows it: docker without --security-opt no-new-privileges, Kubernetes with allowPrivilegeEscalation: true, systemd with NoNewPrivileges=no",
			tool, username(), fs.ErrPermission)
	}
	if err := powerless(tool); err != nil {
		return fmt.Errorf("%w (%w); an administrator allows it with chown root %[3]s && chmod u+s %[3]s, which is what the package fuse3 does", err, fs.ErrPermission, tool)
	}
	return nil
}

// CheckAllowOther says whether the user may let others in.
func CheckAllowOther() error { return checkAllowOther("/etc/fuse.conf") }

func checkAllowOther(conf string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	allowed, err := userAllowOther(conf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("option allow_other: %w", err)
	}
	if !allowed {
		return fmt.Errorf("option allow_other: only root may use it unless the line user_allow_other stands in %s; have it added there, or leave allow_other out", conf)
	}
	return nil
}

func userAllowOther(conf string) (bool, error) {
	f, err := os.Open(conf)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "user_allow_other" {
			return true, nil
		}
	}
	return false, lines.Err()
}

// capable reports whether the process has a capability.
func capable(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.Geteuid() == 0
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}

func username() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// permissions tells who may open a device: " (mode 600, owner 0)".
func permissions(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return ""
	}
	return " (mode " + strconv.FormatUint(uint64(st.Mode&0o7777), 8) + ", owner " + strconv.Itoa(int(st.Uid)) + ")"
}
