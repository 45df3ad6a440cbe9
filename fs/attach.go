package fs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// checkMountDir refuses what cannot be mounted on.
func checkMountDir(dir string, log *slog.Logger) error {
	st, err := os.Stat(dir)
	if errors.Is(err, unix.ENOTCONN) {
		log.Warn("unmounting what a daemon that died left behind", "mount", dir)
		if err := mounts.Unmount(dir, true); err != nil {
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

// attach mounts on a directory, by itself where that is permitted, through fusermount3
// otherwise. It returns the descriptor of the connection. Processes that the daemon starts
// do not inherit it: the mount would outlive the daemon.
func attach(dir string, o MountOptions) (fd int, err error) {
	fd, err = mountDirect(dir, os.Geteuid(), os.Getegid(), o)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		fd, viaErr := mountVia(dir, o)
		if viaErr != nil && os.Geteuid() == 0 {
			return -1, fmt.Errorf("mount %s: %w; nor by fusermount3: %w", dir, err, viaErr)
		}
		return fd, viaErr
	}
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", dir, err)
	}
	return fd, nil
}

// options are those of the file system. That it is read-only and that permissions are
// checked needs no saying.
func (o MountOptions) options() []string {
	return append([]string{"ro", "default_permissions"}, o.Options...)
}

func (o MountOptions) source() string { return cmp.Or(o.Source, fsName) }

// mountDirect mounts for a user and returns the descriptor of the connection.
func mountDirect(dir string, uid, gid int, o MountOptions) (fd int, err error) {
	fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	flags := uintptr(unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID)
	data := []string{
		fmt.Sprintf("fd=%d", fd), fmt.Sprintf("rootmode=%o", unix.S_IFDIR),
		fmt.Sprintf("user_id=%d", uid), fmt.Sprintf("group_id=%d", gid),
		fmt.Sprintf("max_read=%d", maxRead),
	}
	for _, option := range o.options() {
		if flag, ok := mountFlags[option]; ok {
			flags |= flag
		} else {
			data = append(data, option)
		}
	}
	if o.AllowOther {
		data = append(data, "allow_other")
	}
	if err := unix.Mount(o.source(), dir, "fuse."+fsName, flags, strings.Join(data, ",")); err != nil {
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
func mountVia(dir string, o MountOptions) (fd int, err error) {
	if o.AllowOther {
		if err := mounts.CheckAllowOther(); err != nil {
			return -1, fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	bin, err := mounts.Fusermount()
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", dir, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	here, there := os.NewFile(uintptr(pair[0]), "fusermount"), os.NewFile(uintptr(pair[1]), "fusermount")
	defer here.Close()
	defer there.Close()
	options := append(o.options(), "fsname="+o.source(), "subtype="+fsName, fmt.Sprintf("max_read=%d", maxRead))
	if o.AllowOther {
		options = append(options, "allow_other")
	}
	escape := strings.NewReplacer(`\`, `\\`, ",", `\,`)
	for i := range options {
		options[i] = escape.Replace(options[i])
	}
	cmd := exec.Command(bin, "-o", strings.Join(options, ","), "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{there}
	if out, err := cmd.CombinedOutput(); err != nil {
		return -1, fmt.Errorf("mount %s: %s: %w", dir, bytes.TrimSpace(out), err)
	}
	if fd, err = receive(pair[0]); err != nil {
		return -1, errors.Join(fmt.Errorf("mount %s: %s: %w", dir, bin, err), mounts.Unmount(dir, true))
	}
	return fd, nil
}

// receive takes a descriptor from a socket.
func receive(socket int) (fd int, err error) {
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 4), space, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(space[:n])
	if err != nil {
		return -1, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, errors.New("it sent no descriptor")
}

// Premount is a directory that is mounted, and that another process is going to serve: see
// [MountOptions].
type Premount struct {
	conn      int // the descriptor of the connection
	readAhead int // of the file that says how much the kernel reads ahead; -1: none
}

// Attach mounts on a directory for a process that this one starts, which runs as another user
// if uid is not that of this process: that takes root. Until [Mount] serves it, whoever looks
// at the directory waits. What a daemon that died left behind there is unmounted first.
func Attach(dir string, uid, gid int, o MountOptions, log *slog.Logger) (*Premount, error) {
	if err := checkMountDir(dir, log); err != nil {
		return nil, err
	}
	var conn int
	var err error
	if uid == os.Geteuid() {
		conn, err = attach(dir, o)
	} else if conn, err = mountDirect(dir, uid, gid, o); err != nil {
		err = fmt.Errorf("mount %s: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return newPremount(dir, conn), nil
}

func newPremount(dir string, conn int) *Premount {
	p := &Premount{conn: conn, readAhead: -1}
	// Asking for nothing but the device is answered without the daemon.
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_DONT_SYNC, 0, &st); err == nil {
		p.readAhead, _ = unix.Open(readAheadFile(st.Dev_major, st.Dev_minor), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	}
	return p
}

// Files are the descriptors, for another process; readAhead may be nil.
func (p *Premount) Files() (conn, readAhead *os.File) {
	if p.readAhead >= 0 {
		readAhead = os.NewFile(uintptr(p.readAhead), "read-ahead")
	}
	return os.NewFile(uintptr(p.conn), "connection"), readAhead
}

// PremountOf is what another process has mounted. It takes the files over.
func PremountOf(conn, readAhead *os.File) (*Premount, error) {
	p := &Premount{readAhead: -1}
	take := func(f *os.File) (int, error) {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return fd, errors.Join(err, f.Close())
	}
	var err error
	if p.conn, err = take(conn); err == nil && readAhead != nil {
		p.readAhead, err = take(readAhead)
	}
	return p, err
}

// setReadAhead raises how much the kernel reads ahead.
func (p *Premount) setReadAhead(size int) error {
	if p.readAhead < 0 {
		return errors.New("it takes root")
	}
	_, err := unix.Write(p.readAhead, []byte(strconv.Itoa(size>>10)))
	return err
}
