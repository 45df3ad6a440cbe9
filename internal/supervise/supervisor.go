// Package supervise is the parent of a daemon: it mounts, and outlives the daemon.
//
// # Nouns
//
// The supervisor is a process that never touches a picture. It holds the descriptor of the
// mount's connection to the kernel. As long as a process holds the connection, readers wait
// for an answer instead of getting an error.
//
// The daemon is its child, which serves the connection. If it dies, the supervisor ends the
// connection, so that readers get an error. With Config.Restart it starts another daemon
// instead, which reads the journal, a file in memory in which the daemon before it wrote what
// the kernel was told, and goes on. If daemons die too often, or the next one does not come
// up, the supervisor gives up and ends the connection. On a takeover the supervisor has the
// daemon stop, and starts another program.
//
// The pipe joins the two: over it the supervisor has the daemon stop, and the daemon has
// the supervisor end the mount. If the supervisor dies, the daemon goes on without it.
//
// The supervisor answers at the control socket of the mount. It counts the holders of a
// shared mount, so that they outlive a daemon, and passes on what it cannot answer.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
)

// Config of a supervisor.
type Config struct {
	Dir    string // that is mounted
	Handed Handed // what its daemons are handed; ControlPipe is nil
	// Restart: another daemon follows one that died.
	Restart   bool
	Arguments []string
	Settings  []byte // that daemons are handed: JSON
	User      *User  // whom they run as; nil is who this process runs as
	// Patience is how long a daemon may take until the mount answers.
	Patience time.Duration
	// Deaths within a minute that end the mount; 0 is MaxDeaths.
	Deaths int
	// Hung is how long the mount may not answer while the daemon does nothing, before that is
	// killed and started again; 0 is for ever.
	Hung time.Duration
	// Key of a shared mount, which ends with its last holder; empty for any other.
	Key string
	// JournalVersion is that of this program.
	JournalVersion int
	Resends        bool // the kernel sends again what a daemon that died did not answer

	LogFile *os.File // takes what daemons write, panics included
	Log     *slog.Logger
	// Signals end the mount: the first one patiently, the second one at once.
	Signals chan os.Signal
	// Say is told what the first daemon waits for when that takes long, Note what the
	// user should know. Stopping is called when the mount begins to end as somebody wished.
	Say, Note func(text string)
	Stopping  func()
}

// Supervisor holds a mount.
type Supervisor struct {
	c       Config
	holders *control.Holders
	control *control.Server
	socket  string // of the daemon
	sys     system
	// own is this program as it was when it began: at its path may lie another one by now.
	own string

	takeovers chan takeover
	died      chan error  // what the daemon that runs ended with
	faults    []time.Time // deaths of daemons by what they did, within a minute
	oomKills  int64       // of the system, when the daemon that runs was started

	mu      sync.Mutex
	child   *Process
	pipe    *ControlPipe
	program string // that serves
	stats   control.Supervised
}

// takeover is a request.
type takeover struct {
	program string
	done    chan error
}

// Start starts the first daemon, and returns when the mount answers. After an error the
// mount is gone.
func Start(ctx context.Context, c Config) (*Supervisor, error) {
	s := newSupervisor(c)
	sys, err := systemOf(&s.c)
	if err != nil {
		return nil, errors.Join(err, mounts.Unmount(c.Dir, true), sys.close())
	}
	s.sys = sys
	if err = s.answer(); err == nil {
		err = s.launch(ctx)
	}
	if err == nil {
		if _, err = mounts.Answer(c.Dir, c.Patience, func() (any, error) { s.sys.look(); return nil, nil }); err != nil {
			err = fmt.Errorf("the mount does not answer: %w", err)
			s.kill()
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.sys.end(), mounts.Unmount(c.Dir, true), s.close())
	}
	return s, nil
}

func newSupervisor(c Config) *Supervisor {
	s := &Supervisor{c: c, holders: control.NewHolders(c.Key), own: "/proc/self/exe", takeovers: make(chan takeover), died: make(chan error, 1)}
	s.program = s.own
	s.stats = control.Supervised{PID: os.Getpid(), Journal: c.JournalVersion, Config: c.Settings}
	return s
}

// launch starts a daemon and waits until it serves.
func (s *Supervisor) launch(ctx context.Context) error {
	s.oomKills = oomKills()
	child, pipe, err := s.sys.launch(ctx, s.program)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.child, s.pipe = child, pipe
	s.mu.Unlock()
	go func() {
		err := child.Wait()
		pipe.Close()
		s.died <- err
	}()
	go s.heed(pipe)
	return nil
}

// heed takes what a daemon asks for a signal.
func (s *Supervisor) heed(pipe *ControlPipe) {
	for {
		select {
		case <-pipe.Asked():
			s.c.Signals <- unix.SIGTERM
		case <-pipe.Lost():
			return
		}
	}
}

// Run is the life of a supervisor: it returns when the mount is gone. The error is nil where
// it was meant to go.
func (s *Supervisor) Run(ctx context.Context, background bool) error {
	signals := s.c.Signals
	done := make(chan struct{})
	e := &Ending{Dir: s.c.Dir, Place: s.sys, Done: done, Log: s.c.Log}
	var unseen <-chan struct{}
	if background {
		unseen = e.Unseen(s.processes)
	}
	s.holders.Expect(control.UntilHeld)
	hung := s.hung(done)
	var deaths []time.Time
	for {
		select {
		case err := <-s.died:
			if s.sys.ended() {
				close(done)
				return s.giveUp(nil)
			}
			err = errOr(err, "it ended")
			switch {
			case !s.c.Restart:
				close(done)
				return s.giveUp(fmt.Errorf("the daemon died: %w", err))
			case !s.c.Resends:
				close(done)
				return s.giveUp(fmt.Errorf("the daemon died, and this kernel does not send again what it did not answer (Linux 6.9 does): %w", err))
			}
			began := time.Now()
			s.c.Log.Error("the daemon died, and is started again; readers wait", "cause", err)
			if !s.blame(err) {
				deaths = append(deaths, began)
			}
			interrupted := s.untilSignal(ctx, signals, func(ctx context.Context) { deaths, err = s.again(ctx, deaths) })
			switch {
			case err != nil && interrupted:
				close(done)
				s.c.Log.Info("stopping by a signal, while the daemon was being started again", "mount", s.c.Dir)
				return errors.Join(s.sys.end(), s.sys.Unmount(true), s.close())
			case err != nil:
				close(done)
				return s.giveUp(err)
			}
			s.served(began, &s.stats.Restarts)
		case t := <-s.takeovers:
			err := s.replace(ctx, t.program)
			t.done <- err
			if err != nil && s.running() == nil {
				close(done)
				return s.giveUp(err)
			}
		case at := <-hung:
			if s.worked() != at {
				continue // it goes on, or is another one
			}
			s.c.Log.Error("the mount does not answer, and the daemon does nothing: it is killed, and started again", "seconds", s.c.Hung.Seconds(), "pid", s.child.PID)
			s.kill()
		case <-unseen:
			s.c.Log.Info("stopping: this mount namespace has no other process, so nobody can see the mount", "mount", s.c.Dir)
			return s.end(e, done, signals)
		case <-s.holders.Gone():
			s.c.Log.Info("stopping: nobody holds this shared mount", "mount", s.c.Dir)
			return s.end(e, done, signals)
		case sig := <-signals:
			s.c.Log.Info("stopping", "signal", sig.String())
			return s.end(e, done, signals)
		}
	}
}

// end ends the mount as somebody wished.
func (s *Supervisor) end(e *Ending, done chan struct{}, signals chan os.Signal) error {
	if s.c.Stopping != nil {
		s.c.Stopping()
	}
	s.holders.End()
	go func() {
		s.c.Log.Debug("the daemon ended", "cause", <-s.died)
		close(done)
	}()
	var err error
	if !e.Run(signals) {
		err = s.sys.end() // open files cannot be read further
		s.kill()
	}
	<-done
	// A daemon that died meanwhile has not been waited for: the mount may still be there.
	return errors.Join(err, s.sys.Unmount(true), s.close())
}

// giveUp ends the connection of a mount that nobody serves: its readers get an error instead
// of waiting. The mount stays, so that they do not take the empty directory below it for
// the dataset. If the connection has ended, the mount is gone, and there is nothing to give up.
func (s *Supervisor) giveUp(cause error) error {
	s.holders.End()
	if s.sys.ended() {
		s.c.Log.Info("unmounted", "mount", s.c.Dir)
		return s.close()
	}
	s.c.Log.Error("giving the mount up: whoever reads from it gets an error. Unmount it (pipefs umount), or mount there again", "mount", s.c.Dir, "cause", cause)
	return errors.Join(cause, s.sys.end(), s.close())
}

// kill ends the daemon, if there is one.
func (s *Supervisor) kill() {
	if child := s.running(); child != nil {
		child.Kill()
	}
}

func (s *Supervisor) running() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

func (s *Supervisor) setChild(c *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child = c
}

func (s *Supervisor) setProgram(p string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = p
}

// processes are those of the mount beside this one.
func (s *Supervisor) processes() []int {
	if child := s.running(); child != nil {
		return []int{child.PID}
	}
	return nil
}

// close lets go of the connection.
func (s *Supervisor) close() error {
	var err error
	if s.control != nil {
		err = s.control.Close()
		s.removeSocket()
	}
	return errors.Join(err, s.sys.close())
}

func errOr(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}
