package daemon

import (
	"fmt"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// Process is a child that runs, or has ended.
type Process struct {
	PID  int
	cmd  *exec.Cmd
	dead chan struct{} // closed when it has ended
	err  error         // written before that: what it ended with
}

// StuckError is what a process ended with of which a thread still waits in the kernel, so that it
// cannot be reaped.
type StuckError struct {
	Status syscall.WaitStatus // 0 where it is not known
}

func (e *StuckError) Error() string {
	how := "it ended"
	switch {
	case e.Status.Signaled():
		how = fmt.Sprintf("signal: %v", e.Status.Signal())
	case e.Status != 0:
		how = fmt.Sprintf("exit status %d", e.Status.ExitStatus())
	}
	return how + ", and a thread of it still waits in the kernel"
}

const (
	// lookInterval is the time between two looks at the state of a child.
	lookInterval = 200 * time.Millisecond
	// untilReaped is how long all threads of a child may take to end after its first one.
	untilReaped = 100 * time.Millisecond
)

// watch learns of the end of a child. A process is reaped when its last thread has ended, and
// a thread of a FUSE daemon may wait in the kernel for an answer that only the next daemon
// gives. So a child counts as dead if its first thread is gone, and the others all wait where
// no signal wakes them. One that still runs may be taking a request off the queue, on a machine
// with much to do: nobody would answer that, had the next daemon asked for what is left before.
// No descriptor tells that (a pidfd with PIDFD_THREAD does not on Linux 6.15 and newer).
func watch(cmd *exec.Cmd) *Process {
	p := &Process{PID: cmd.Process.Pid, cmd: cmd, dead: make(chan struct{})}
	reaped := make(chan error, 1)
	go func() { reaped <- cmd.Wait() }()
	go func() {
		defer close(p.dead)
		tick := time.NewTicker(lookInterval)
		defer tick.Stop()
		for !mounts.Zombie(p.PID) {
			select {
			case p.err = <-reaped:
				return
			case <-tick.C:
			}
		}
		for {
			select {
			case p.err = <-reaped:
				return
			case <-time.After(untilReaped):
				if !mounts.Runs(p.PID) {
					p.err = &StuckError{mounts.ExitStatus(p.PID)}
					return
				}
			}
		}
	}()
	return p
}

// Dead is closed when the process has ended.
func (p *Process) Dead() <-chan struct{} { return p.dead }

// Wait returns what the process ended with, once it has.
func (p *Process) Wait() error {
	<-p.dead
	return p.err
}

// Kill ends the process at once.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// timerSlack is how late a thread of the daemon may be woken by a timer.
//
// Go's runtime has a thread that watches the others. While a file system answers
// requests it wakes every 20 µs, to see whether a thread that waits for the next
// request should give up its place. Beside a loader that keeps all cores busy
// these wake-ups took half of the daemon's CPU time, 0.25 ms for each file read.
// Nothing here needs timers of better than a millisecond.
const timerSlack = time.Millisecond

// startCalm starts a process with that slack for all its threads. It is
// inherited from the thread that forks, and survives the exec.
func startCalm(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }()
	}
	return cmd.Start()
}

// User is the user that a child runs as.
type User struct {
	Name     string // for messages
	UID, GID int
	Groups   []int
	Home     string // empty if there is none
}

// LookupUser finds a user by name or number.
func LookupUser(name string) (*User, error) {
	found, err := user.Lookup(name)
	if number, bad := strconv.Atoi(name); err != nil && bad == nil {
		found, err = user.LookupId(strconv.Itoa(number))
	}
	if err != nil {
		return nil, fmt.Errorf("there is no user %s", name)
	}
	u := &User{Name: found.Username, Home: found.HomeDir}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %s: %w", name, err)
	}
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("the groups of user %s: %w", name, err)
		}
		u.Groups = append(u.Groups, gid)
	}
	u.UID, err = strconv.Atoi(found.Uid)
	if err == nil {
		u.GID, err = strconv.Atoi(found.Gid)
	}
	return u, err
}

func (u *User) credential() *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
	for _, g := range u.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}
