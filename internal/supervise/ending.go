package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
)

// A mount that shall end is waited for so long while it is busy, and open files are served
// so long after a lazy unmount: together less than what Docker, Kubernetes and Slurm give a
// process before they kill it, which would leave a dead mount behind.
const (
	untilLazy = 2 * time.Second
	// Lingering is how long open files are served after that.
	Lingering = time.Second
	// UntilDone is how long a mount that nobody uses may take to end.
	UntilDone = 5 * time.Second
)

// Place is a mount that can be taken away: a [mounts.Place].
type Place interface {
	Unmount(lazy bool) error
	Seen(but ...int) bool
}

// Ending is how a mount ends.
type Ending struct {
	Dir   string
	Place Place
	Done  <-chan struct{} // closed when the mount is gone and its last request is answered
	Log   *slog.Logger
}

// Run takes the mount away: patiently, then lazily, and at once when asked a second time.
// Then it waits until the last open file is closed. It returns false where the mount cannot
// be taken away, or requests are still under way.
func (e *Ending) Run(again <-chan os.Signal) bool {
	left, ok := e.unmount(again)
	return ok && e.outlast(left, again)
}

// unmount returns how long what is left may take to end; ok is false where the mount
// cannot be taken away.
func (e *Ending) unmount(again <-chan os.Signal) (left time.Duration, ok bool) {
	patience := time.NewTimer(untilLazy)
	defer patience.Stop()
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	because := ""
	for told := false; because == ""; {
		err := e.Place.Unmount(false)
		if err == nil {
			return UntilDone, true
		}
		if !told && !errors.Is(err, mounts.ErrBusy) {
			told = true
			e.Log.Warn("unmounting", "cause", err)
		}
		select {
		case <-e.Done:
			return UntilDone, true
		case <-retry.C:
		case <-patience.C:
			because = "it stayed busy"
		case <-again:
			because = "a second signal"
		}
	}
	for _, p := range mounts.Users(e.Dir, 5) {
		e.Log.Warn("the mount is busy", "pid", p.PID, "program", p.Name, "uses", p.Uses)
	}
	if err := e.Place.Unmount(true); err != nil {
		e.Log.Error("unmounting lazily", "cause", err)
		return 0, false
	}
	e.Log.Warn("unmounted lazily: files that are open can be read a little longer", "because", because, "seconds", Lingering.Seconds())
	return Lingering, true
}

// outlast waits until the last open file is closed. It returns false where that takes
// too long, or a signal comes first.
func (e *Ending) outlast(left time.Duration, again <-chan os.Signal) bool {
	select {
	case <-e.Done:
		e.Log.Info("unmounted", "mount", e.Dir)
		return true
	case <-time.After(left):
	case <-again:
	}
	e.Log.Warn("ending while files are open: their readers get an error", "mount", e.Dir)
	return false
}

// Unseen is closed when nobody is left who could see the mount: a namespace whose last
// process ends would otherwise live on with the daemon, and the daemon with it. processes
// are those of the mount itself.
func (e *Ending) Unseen(processes func() []int) <-chan struct{} {
	alone := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		// Twice: the first process may be about to be replaced by the next.
		for times := 0; times < 2; {
			select {
			case <-e.Done:
				return
			case <-tick.C:
			}
			if times++; e.Place.Seen(processes()...) {
				times = 0
			}
		}
		close(alone)
	}()
	return alone
}

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
func as(u *User, do func() error) error {
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(4+r.Seconds)*time.Second)
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
			state := "has died"
			if s.c.Restart {
				state = "is being started again and does not answer yet"
			}
			return control.Reply{Refused: true, Error: fmt.Sprintf("the daemon of %s %s: %v", s.c.Dir, state, err)}
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
