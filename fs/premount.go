package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Premount is a directory that is mounted and not served yet. A daemon that gives up
// root mounts first, which takes root, and becomes a program of another user, which
// serves: see [MountOptions].
type Premount struct {
	conn      int // the descriptor of the connection
	readAhead int // of the file that says how much the kernel reads ahead; -1: none
}

// NewPremount mounts on a directory. The owner may unmount it, and needs no AllowOther
// to read it. Until [Mount] serves it, whoever looks at the directory waits.
func NewPremount(dir string, uid, gid int, o MountOptions) (*Premount, error) {
	conn, err := mountDirect(dir, uid, gid, o)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	return newPremount(dir, conn), nil
}

// Attach mounts on a directory for this process, or for one that it starts; what a daemon
// that died left behind there is unmounted first.
func Attach(dir string, o MountOptions, log *slog.Logger) (*Premount, error) {
	if err := checkMountDir(dir, log); err != nil {
		return nil, err
	}
	conn, err := attach(dir, o)
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

// Hand lets the program have the descriptors that this process is about to become. It
// returns what [TakePremount] of that program has to be given.
func (p *Premount) Hand() (string, error) {
	for _, fd := range []int{p.conn, p.readAhead} {
		if fd < 0 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return "", os.NewSyscallError("fcntl", err)
		}
	}
	return fmt.Sprintf("%d,%d", p.conn, p.readAhead), nil
}

// TakePremount takes over what the program before this one mounted.
func TakePremount(handed string) (*Premount, error) {
	p := &Premount{}
	if n, err := fmt.Sscanf(handed, "%d,%d", &p.conn, &p.readAhead); n != 2 {
		return nil, fmt.Errorf("what is mounted already: %q: %w", handed, err)
	}
	unix.CloseOnExec(p.conn)
	if p.readAhead >= 0 {
		unix.CloseOnExec(p.readAhead)
	}
	return p, nil
}

// setReadAhead raises how much the kernel reads ahead.
func (p *Premount) setReadAhead(size int) error {
	if p.readAhead < 0 {
		return errors.New("it takes root")
	}
	_, err := unix.Write(p.readAhead, []byte(strconv.Itoa(size>>10)))
	return err
}
