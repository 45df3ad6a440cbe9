package fs

import (
	"errors"
	"fmt"
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
	conn, err := mountDirect(dir, uid, gid, o.kernel())
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	p := &Premount{conn: conn, readAhead: -1}
	// Asking for nothing but the device is answered without the daemon.
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_DONT_SYNC, 0, &st); err == nil {
		p.readAhead, _ = unix.Open(readAheadFile(st.Dev_major, st.Dev_minor), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	}
	return p, nil
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
