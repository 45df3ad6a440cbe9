package share

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
)

// peer is the process at the other end of a connection.
type peer struct {
	uid uint32
	pid int // 0: of another PID namespace
	fd  int // its pidfd
}

// identify asks the kernel. The pidfd is held from now on, so that the number cannot
// come to mean another process.
func identify(conn *net.UnixConn) (*peer, error) {
	cred, err := control.Peer(conn)
	if err != nil {
		return nil, fmt.Errorf("the kernel does not tell who connects: %w", err)
	}
	p := &peer{uid: cred.Uid, pid: int(cred.Pid)}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) {
		p.fd, inner = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	}); err != nil {
		return nil, err
	}
	if inner != nil { // Linux before 6.5
		p.fd, inner = unix.PidfdOpen(p.pid, 0)
	}
	if inner != nil {
		return nil, fmt.Errorf("the kernel does not tell when process %d ends, and so when its memory is free again: %w; it takes Linux 5.3 and one PID namespace for the mount and those who train (containers: --pid)", p.pid, inner)
	}
	return p, nil
}

func (p *peer) forget() { unix.Close(p.fd) }

// gone reports whether the process has ended, after waiting for that until patience or
// ctx ends.
func (p *peer) gone(ctx context.Context, patience time.Duration) bool {
	const step = 100 * time.Millisecond // until ctx is looked at
	for until := time.Now().Add(patience); ; {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(step/time.Millisecond))
		if n > 0 {
			return true
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return false
		}
	}
}
