package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

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
