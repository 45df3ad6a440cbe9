package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// system is the mount and its daemons, as the supervisor deals with them. The simulation of the tests has another one.
type system interface {
	Place
	// launch starts a daemon and waits until it serves.
	launch(ctx context.Context, program string) (*Process, *ControlPipe, error)
	// look has the daemon answer a request. An error is an answer: a process that may not look at the mount cannot
	// tell whether it hangs.
	look()
	// worked names a daemon and the processor time that it has used; nothing where that is not known.
	worked(*Process) string
	// ended reports whether the connection has ended, and end ends it.
	ended() bool
	end() error
	close() error
}

// kernel is the system of this machine.
type kernel struct {
	mounts.Place
	c     *Config
	abort *mounts.Abort // nil where the connection cannot be ended
}

// systemOf finds out what was mounted, and how its connection can be ended.
func systemOf(c *Config) (k *kernel, err error) {
	k = &kernel{c: c}
	if k.Place, err = mounts.PlaceOf(c.Dir); err != nil {
		return k, err
	}
	if k.abort, err = k.Abort(); err != nil {
		c.Handed.NoAbort = true
		text := fmt.Sprintf("names expire after a second and are then asked for again, since user %d could not end the mount if its daemon died: %v", os.Geteuid(), err)
		c.Log.Warn(text)
		c.Note(text)
	}
	return k, nil
}

func (k *kernel) launch(ctx context.Context, program string) (*Process, *ControlPipe, error) {
	pipe, theirs, err := pair()
	if err != nil {
		return nil, nil, err
	}
	files, env := k.c.Handed.files(theirs)
	child, err := Launch(ctx, Child{
		Args: k.c.Arguments, Config: k.c.Settings, Log: k.c.LogFile, Patience: k.c.Patience, Notice: time.Second,
		Say: k.c.Say, Tell: k.c.Note,
		Program: program, User: k.c.User, Files: files, Env: []string{env},
	})
	theirs.Close()
	if err != nil {
		return nil, nil, errors.Join(err, pipe.Close())
	}
	return child, pipe, nil
}

func (k *kernel) look() {
	var st unix.Statx_t
	_ = unix.Statx(unix.AT_FDCWD, k.c.Dir, unix.AT_STATX_FORCE_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
}

func (k *kernel) worked(p *Process) string {
	fields, err := mounts.StatFields(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil || len(fields) < 13 { // utime and stime are the 12th and 13th
		return ""
	}
	return fmt.Sprintf("%d %s %s", p.PID, fields[11], fields[12])
}

// ended: the kernel tells it without a request.
func (k *kernel) ended() bool {
	fds := []unix.PollFd{{Fd: int32(k.c.Handed.Connection.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

func (k *kernel) end() error { return k.abort.End() }

func (k *kernel) close() error {
	var err error
	if k.c.Handed.Journal != nil {
		err = k.c.Handed.Journal.Close()
	}
	return errors.Join(err, k.c.Handed.Connection.Close(), k.abort.Close())
}
