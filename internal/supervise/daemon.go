package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// A Go program cannot fork: only one of its threads would survive. So the parent
// runs its own program once more, as a child in a session of its own, with a pipe
// between them. Over the pipe the child says what it is doing, that it is ready,
// or what went wrong, one line of JSON each; the parent waits for that and exits
// accordingly. The child starts with its arguments and a configuration, which it reads from
// another pipe: whatever it opens it opens itself, and no lock or connection has to survive the change of process.

// readyVariable is the variable that makes a process the child: the number of the
// pipe's descriptor.
const readyVariable = "_PIPEFS_READY_FD"

// message is what the child says, one line each.
type message struct {
	Status string `json:"status,omitempty"` // what it does right now
	Note   string `json:"note,omitempty"`   // for the user
	Ready  bool   `json:"ready,omitempty"`
	Error  string `json:"error,omitempty"`
	Code   int    `json:"code,omitempty"`
}

// Child describes the process to start.
type Child struct {
	Args []string // argv, the program's name first
	// Config is what [Parent.Config] is in the child.
	Config []byte
	Log    *os.File // takes its standard output and error, panics included
	// Patience is how long it may take to be ready.
	Patience time.Duration
	// Notice is after how long Say is called with what the child is doing.
	Notice time.Duration
	Say    func(status string)
	// Tell is called with each note of the child, at once.
	Tell func(note string)

	// Program is the path of the program; empty is this one.
	Program string
	// User is whom the child runs as; nil is who this process runs as.
	User *User
	// Files are its descriptors from [FirstFile] on.
	Files []*os.File
	// Env is added to the environment.
	Env []string
}

const (
	// configFile is the descriptor of the pipe that [Child.Config] comes from.
	configFile = 4
	// FirstFile is the descriptor of the first of [Child.Files].
	FirstFile = 5
	// untilKilled is how long a child may take to end after SIGTERM.
	untilKilled = 5 * time.Second
)

// StartDaemon runs this program once more and waits until the child is ready. The error
// is a [Failure] where the child gave one. A child that is not ready in time, or when ctx
// is cancelled, is stopped.
func StartDaemon(ctx context.Context, c Child) error {
	_, err := Launch(ctx, c)
	return err
}

// Launch is StartDaemon for a parent that waits for the end of the child.
func Launch(ctx context.Context, c Child) (*Process, error) {
	program := c.Program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding this program: %w", err)
		}
		if _, err := os.Stat(program); err != nil {
			program = "/proc/self/exe" // replaced by an upgrade, but still there
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	config, give, err := os.Pipe()
	if err != nil {
		write.Close()
		return nil, err
	}
	logged, err := c.Log.Seek(0, io.SeekEnd)
	if err != nil {
		logged = -1
	}
	cmd := exec.Command(program)
	cmd.Args = c.Args
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = c.Log, c.Log
	cmd.ExtraFiles = append([]*os.File{write, config}, c.Files...) // descriptors 3, configFile and FirstFile
	cmd.Env = append(append(os.Environ(), readyVariable+"=3"), c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u := c.User; u != nil {
		cmd.SysProcAttr.Credential = u.credential()
		cmd.Env = append(cmd.Env, "HOME="+u.Home) // the last one counts
	}
	err = startCalm(cmd)
	write.Close()
	config.Close()
	go func() {
		_, _ = give.Write(c.Config) // a child that ends before says why
		give.Close()
	}()
	if err != nil {
		return nil, fmt.Errorf("starting the daemon: %w", err)
	}
	p := watch(cmd)
	err = c.await(ctx, read)
	if err == nil {
		return p, nil
	}
	var silent *SilentError
	died := errors.As(err, &silent)
	if !died {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		defer time.AfterFunc(untilKilled, p.Kill).Stop()
	}
	gone := p.Wait()
	if died {
		silent.cause = gone
		silent.words = tail(c.Log.Name(), logged)
	}
	return nil, err
}

// Failure is what a child said to [Parent.Fail].
type Failure struct {
	Text string
	Code int
}

func (f *Failure) Error() string { return f.Text }

// SilentError is that of a child which ended without a word.
type SilentError struct {
	cause error
	words string // the last it wrote to the log
}

func (e *SilentError) Error() string {
	text := "the daemon ended before the mount answered"
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.words != "" {
		text += "; its last words:\n" + e.words
	}
	return text
}

// await reads what the child says until it is ready.
func (c Child) await(ctx context.Context, pipe io.Reader) error {
	said := make(chan message)
	done := make(chan struct{})
	defer close(done)
	go func() {
		defer close(said)
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				m = message{Error: fmt.Sprintf("the daemon said %q", line)}
			}
			select {
			case said <- m:
			case <-done:
				return
			}
		}
	}()
	status := "the daemon to start"
	patience := time.NewTimer(c.Patience)
	defer patience.Stop()
	notice := time.NewTicker(c.Notice)
	defer notice.Stop()
	for {
		select {
		case m, ok := <-said:
			switch {
			case !ok:
				return &SilentError{}
			case m.Ready:
				return nil
			case m.Error != "":
				return &Failure{m.Error, m.Code}
			case m.Note != "":
				c.Tell(m.Note)
				continue
			}
			status = m.Status
		case <-notice.C:
			c.Say(status)
		case <-patience.C:
			return fmt.Errorf("the mount did not answer within %v (--ready-timeout), while waiting for %s", c.Patience, status)
		case <-ctx.Done():
			return fmt.Errorf("interrupted while waiting for %s: %w", status, ctx.Err())
		}
	}
}

// tail is the end of a log, what was written after offset from.
func tail(name string, from int64) string {
	const most = 2000 // bytes: a panic's first lines are worth more than its last
	f, err := os.Open(name)
	if err != nil || from < 0 {
		return ""
	}
	defer f.Close()
	b := make([]byte, most)
	n, _ := f.ReadAt(b, from)
	return string(b[:n])
}

// isPipe reports whether a descriptor is one end of a pipe.
func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// Parent is the process that waits for this one to be ready. The methods of a nil
// Parent do nothing: nobody waits.
type Parent struct {
	// Config is that of [Child].
	Config []byte

	mu   sync.Mutex
	pipe *os.File // nil when everything is said
}

// Waiting returns the parent if there is one that waits. It may be called once.
func Waiting() *Parent {
	fd, err := strconv.Atoi(os.Getenv(readyVariable))
	// not for our own children: they would take themselves for the daemon
	_ = os.Unsetenv(readyVariable)
	if err != nil || fd < 3 || !isPipe(fd) {
		return nil
	}
	// fusermount3 must not hold the pipe open when we are gone
	unix.CloseOnExec(fd)
	from := os.NewFile(configFile, "configuration")
	defer from.Close()
	config, _ := io.ReadAll(from) // what is cut short is no JSON
	return &Parent{Config: config, pipe: os.NewFile(uintptr(fd), "ready")}
}

func (p *Parent) say(m message, last bool) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pipe == nil {
		return nil
	}
	err := json.NewEncoder(p.pipe).Encode(m)
	if last {
		p.pipe.Close()
		p.pipe = nil
	}
	return err
}

// Status tells what is waited for right now; it completes "waiting for".
func (p *Parent) Status(what string) { _ = p.say(message{Status: what}, false) }

// Note has the parent tell the user something.
func (p *Parent) Note(text string) { _ = p.say(message{Note: text}, false) }

// Ready lets the parent go. An error means that it has gone before: whoever
// started it no longer expects the mount.
func (p *Parent) Ready() error { return p.say(message{Ready: true}, true) }

// Fail gives the parent an error and a code to end with. After Ready it does nothing.
func (p *Parent) Fail(err error, code int) {
	_ = p.say(message{Error: err.Error(), Code: code}, true)
}

// maxLog is the size from which on a log is put aside when a daemon starts.
const maxLog = 16 << 20 // bytes

// OpenLog opens a log to append to. One that grew large is kept as FILE.old.
func OpenLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > maxLog {
		_ = os.Rename(path, path+".old")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// Process is a child that runs, or has ended.
type Process struct {
	PID  int
	kill func() error
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
	// untilReaped is how long it may take to reap a child that has ended.
	untilReaped = 100 * time.Millisecond
)

// watch learns of the end of a child. A process is reaped when its last thread has ended, and
// a thread of a FUSE daemon may wait in the kernel for an answer that only the next daemon
// gives. So a child counts as dead once [mounts.Ended] says so. One of which a thread still runs may be
// taking a request off the queue, on a machine with much to do: nobody would answer that, had the next
// daemon asked for what is left before. No descriptor tells that (a pidfd with PIDFD_THREAD does not on
// Linux 6.15 and newer).
func watch(cmd *exec.Cmd) *Process {
	p := &Process{PID: cmd.Process.Pid, kill: cmd.Process.Kill, dead: make(chan struct{})}
	reaped := make(chan error, 1)
	go func() { reaped <- cmd.Wait() }()
	go func() {
		defer close(p.dead)
		tick := time.NewTicker(lookInterval)
		defer tick.Stop()
		for {
			select {
			case p.err = <-reaped:
				return
			case <-tick.C:
			}
			if !mounts.Ended(p.PID) {
				continue
			}
			select {
			case p.err = <-reaped:
			case <-time.After(untilReaped):
				p.err = &StuckError{mounts.ExitStatus(p.PID)}
			}
			return
		}
	}()
	return p
}

// Wait returns what the process ended with, once it has.
func (p *Process) Wait() error {
	<-p.dead
	return p.err
}

// Kill ends the process at once.
func (p *Process) Kill() { _ = p.kill() }

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
