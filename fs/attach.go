package fs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// checkMountDir refuses what cannot be mounted on.
func checkMountDir(dir string, log *slog.Logger) error {
	st, err := os.Stat(dir)
	if errors.Is(err, unix.ENOTCONN) {
		log.Warn("unmounting what a daemon that died left behind", "mount", dir)
		if err := detach(dir, true); err != nil {
			return fmt.Errorf("mount %s: a daemon that died left it behind, and it cannot be unmounted: %w", dir, err)
		}
		st, err = os.Stat(dir)
	}
	if err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("mount %s: not a directory", dir)
	}
	return nil
}

// mount attaches the directory: by itself where that is permitted, through
// fusermount3 otherwise.
func (m *Mountpoint) mount(o *fuse.MountOptions) (*fuse.Server, error) {
	fd, err := mountDirect(m.dir, os.Geteuid(), os.Getegid(), o)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		server, viaErr := m.mountVia(o)
		if viaErr != nil && os.Geteuid() == 0 {
			return nil, fmt.Errorf("mount %s: %w; nor by fusermount3: %w", m.dir, err, viaErr)
		}
		return server, viaErr
	}
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", m.dir, err)
	}
	return m.serve(fd, o)
}

// serve serves a connection that is mounted already.
func (m *Mountpoint) serve(conn int, o *fuse.MountOptions) (*fuse.Server, error) {
	server, err := fuse.NewServer(m.fsys, fmt.Sprintf("/dev/fd/%d", conn), o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: %w", m.dir, err), detach(m.dir, true))
	}
	return server, nil
}

// mountDirect mounts for a user and returns the descriptor of the connection.
// Processes that the daemon starts do not inherit it: the mount would outlive the
// daemon.
func mountDirect(dir string, uid, gid int, o *fuse.MountOptions) (fd int, err error) {
	fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	flags := uintptr(unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID)
	data := []string{
		fmt.Sprintf("fd=%d", fd), fmt.Sprintf("rootmode=%o", unix.S_IFDIR),
		fmt.Sprintf("user_id=%d", uid), fmt.Sprintf("group_id=%d", gid),
		fmt.Sprintf("max_read=%d", o.MaxWrite),
	}
	for _, option := range o.Options {
		if flag, ok := mountFlags[option]; ok {
			flags |= flag
		} else {
			data = append(data, option)
		}
	}
	if o.AllowOther {
		data = append(data, "allow_other")
	}
	if err := unix.Mount(o.FsName, dir, "fuse."+o.Name, flags, strings.Join(data, ",")); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mountFlags are the options that mount(2) takes as bits.
var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nodev": unix.MS_NODEV, "nosuid": unix.MS_NOSUID, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// mountVia mounts through fusermount3, which everybody may.
func (m *Mountpoint) mountVia(o *fuse.MountOptions) (*fuse.Server, error) {
	if o.AllowOther && os.Geteuid() != 0 && !userAllowOther() {
		return nil, errors.New("mount: allow_other needs the line user_allow_other in /etc/fuse.conf, which only root can write")
	}
	if _, err := fusermount(); err != nil {
		return nil, fmt.Errorf("mount %s: without root it needs fusermount3: %w", m.dir, err)
	}
	server, err := fuse.NewServer(m.fsys, m.dir, o)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", m.dir, err)
	}
	return server, nil
}

// userAllowOther reports whether users may let others in.
func userAllowOther() bool {
	conf, err := os.ReadFile("/etc/fuse.conf")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(conf)) {
		if strings.TrimSpace(line) == "user_allow_other" {
			return true
		}
	}
	return false
}

func fusermount() (string, error) {
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		return exec.LookPath("fusermount")
	}
	return path, nil
}

// detach unmounts, by itself or through fusermount3.
func detach(dir string, lazily bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazily {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(dir, flags)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	bin, lookErr := fusermount()
	if lookErr != nil {
		return err
	}
	args := []string{"-u", dir}
	if lazily {
		args = []string{"-u", "-z", dir}
	}
	out, runErr := exec.Command(bin, args...).CombinedOutput()
	switch {
	case runErr == nil:
		return nil
	case bytes.Contains(out, []byte("busy")):
		return unix.EBUSY
	}
	return fmt.Errorf("%s: %w", bytes.TrimSpace(out), runErr)
}
