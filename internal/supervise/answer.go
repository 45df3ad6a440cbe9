package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/daemon"
)

// answer begins to answer at the control socket of the mount.
func (s *Supervisor) answer() error {
	uid := unix.Geteuid()
	if s.c.User != nil {
		uid = s.c.User.UID
	}
	var listener *control.Listener
	err := as(s.c.User, func() error {
		path, err := control.SocketOf(s.c.Dir, uid)
		if err != nil {
			return err
		}
		s.socket = control.Behind(path)
		listener, err = control.Listen(path)
		return err
	})
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	h := control.Handlers{Forward: s.forward, Mount: s.c.Dir}
	if s.c.Restart {
		h.Takeover = s.takeover
	}
	if s.holders != nil {
		h.Hold = s.holders.Hold
	}
	if s.c.User != nil {
		h.User = uid
	}
	s.control = control.ServeAt(listener, h, s.c.Log)
	return nil
}

// as does something in the file system with the rights of a user.
func as(u *daemon.User, do func() error) error {
	if u == nil {
		return do()
	}
	// The two are of this thread alone.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	uid, gid := unix.Geteuid(), unix.Getegid()
	defer func() {
		_ = unix.Setfsuid(uid)
		_ = unix.Setfsgid(gid)
	}()
	if err := unix.Setfsgid(u.GID); err != nil {
		return err
	}
	if err := unix.Setfsuid(u.UID); err != nil {
		return err
	}
	return do()
}

// takeover has another program serve.
func (s *Supervisor) takeover(program string) (time.Duration, error) {
	began := time.Now()
	t := takeover{program: program, done: make(chan error, 1)}
	select {
	case s.takeovers <- t:
	case <-time.After(s.c.Patience):
		return 0, fmt.Errorf("the supervisor is busy")
	}
	err := <-t.done
	return time.Since(began), err
}

// forward has the daemon answer. While there is none, it waits a little.
func (s *Supervisor) forward(r control.Request) control.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	client := control.At(s.c.Dir, s.socket)
	for {
		reply, err := client.Do(ctx, r)
		if err == nil || reply.Error != "" {
			if reply.Stats != nil {
				s.fill(reply.Stats)
			}
			return reply
		}
		select {
		case <-ctx.Done():
			return control.Reply{Refused: true, Error: fmt.Sprintf("the daemon of %s is being started again and does not answer yet: %v", s.c.Dir, err)}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// fill adds what the supervisor knows to what the daemon has counted.
func (s *Supervisor) fill(stats *control.Stats) {
	stats.Holders = s.holders.Count()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.stats; s.c.Restart {
		stats.Supervised = &now
	}
}

// removeSocket removes the socket that a daemon which was killed has left behind.
func (s *Supervisor) removeSocket() {
	_ = as(s.c.User, func() error {
		conn, err := net.Dial("unix", s.socket)
		if err == nil {
			return conn.Close() // it is that of the next mount there
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			return os.Remove(s.socket)
		}
		return err
	})
}
