package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxDeaths is the usual number of deaths within a minute that end a mount: what kills a
// daemon at once kills the next one.
const MaxDeaths = 3

const within = time.Minute

// untilStopped is how long a daemon may take to stop in good order, before it is killed.
const untilStopped = 30 * time.Second

// untilSignal cancels what is done when a signal comes, and reports whether one did. The
// signal is left to who looks next.
func (s *Supervisor) untilSignal(ctx context.Context, signals chan os.Signal, do func(context.Context)) (interrupted bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case sig := <-signals:
			interrupted = true
			cancel()
			select {
			case signals <- sig:
			default: // others follow
			}
		case <-stop:
		}
	}()
	do(ctx)
	close(stop)
	<-stopped
	return interrupted
}

// again starts a daemon after deaths, of which it forgets those long ago.
func (s *Supervisor) again(ctx context.Context, deaths []time.Time) ([]time.Time, error) {
	for until := time.Now().Add(s.c.Patience); ; {
		for len(deaths) > 0 && time.Since(deaths[0]) > within {
			deaths = deaths[1:]
		}
		if len(deaths) >= cmp.Or(s.c.Deaths, MaxDeaths) {
			return deaths, fmt.Errorf("the daemon died %d times within a minute", len(deaths))
		}
		s.setChild(nil)
		err := s.launch(ctx)
		if err == nil || ctx.Err() != nil {
			return deaths, err
		}
		s.c.Log.Error("the daemon did not come up again", "cause", err)
		if time.Now().After(until) {
			return deaths, fmt.Errorf("the daemon did not come up again within %v: %w", s.c.Patience, err)
		}
		deaths = append(deaths, time.Now())
	}
}

// replace has another program serve. Where that does not come up, the one before goes on.
func (s *Supervisor) replace(ctx context.Context, program string) error {
	began := time.Now()
	s.c.Log.Info("another program takes the mount over; readers wait", "program", program)
	s.pipe.Ask()
	select {
	case err := <-s.died:
		s.c.Log.Debug("the daemon stopped", "cause", err)
	case <-time.After(untilStopped):
		s.c.Log.Warn("the daemon did not stop, and is killed", "seconds", untilStopped.Seconds())
		s.kill()
		s.c.Log.Debug("the daemon ended", "cause", <-s.died)
	}
	s.setChild(nil)
	if s.sys.ended() {
		return errors.New("the mount has gone")
	}
	before := s.program
	s.setProgram(program)
	err := s.launch(ctx)
	if err == nil {
		s.served(began, &s.stats.Takeovers)
		return nil
	}
	s.c.Log.Error("the other program did not come up; the one before goes on", "program", program, "cause", err)
	s.setProgram(before)
	if backErr := s.launch(ctx); backErr != nil {
		return errors.Join(err, fmt.Errorf("nor did the one before: %w", backErr))
	}
	s.served(began, new(int))
	return fmt.Errorf("%s did not come up, and the program before it goes on: %w", program, err)
}

// served notes a pause that is over.
func (s *Supervisor) served(began time.Time, times *int) {
	pause := time.Since(began)
	s.mu.Lock()
	*times++
	s.stats.Longest = max(s.stats.Longest, pause.Seconds())
	s.mu.Unlock()
	s.c.Log.Info("the mount is served again", "pause_seconds", pause.Seconds(), "pid", s.child.PID)
}

// looks is how often the supervisor looks at a daemon before it takes it for hung.
const looks = 12

// hung tells when the mount has not answered for Config.Hung, while the daemon did nothing at
// all: it was stopped, or all its threads wait for each other. One that computes is not hung,
// however long it takes, and is asked nothing. What it tells is worked, which then has to be the same.
func (s *Supervisor) hung(done <-chan struct{}) <-chan string {
	if s.c.Hung <= 0 {
		return nil
	}
	found := make(chan string)
	go func() {
		ticker := time.NewTicker(s.c.Hung / looks)
		defer ticker.Stop()
		answered := make(chan struct{}, 1)
		asked := false // and not answered yet
		before, times := "", 0
		for {
			select {
			case <-done:
				return
			case <-answered:
				asked = false
				continue
			case <-ticker.C:
			}
			now := s.worked()
			idle := now == before && now != ""
			before = now
			switch {
			case !idle:
				times = 0
			case !asked:
				asked, times = true, 0
				go func() {
					s.sys.look()
					answered <- struct{}{}
				}()
			default:
				times++
			}
			if times == looks {
				times = 0
				select {
				case found <- now:
				case <-done:
					return
				}
			}
		}
	}()
	return found
}

// worked names the daemon and the processor time that it has used; nothing where there is none.
func (s *Supervisor) worked() string {
	child := s.running()
	if child == nil {
		return ""
	}
	return s.sys.worked(child)
}

const (
	// minFaults is the number of faults within a minute after which the requests that daemons
	// left unanswered run one at a time.
	minFaults = 2
	// maxFaults is the number of faults within a minute that end a mount all the same.
	maxFaults = 16
)

// blame notes what a daemon died of, and decides how the next one answers what it left
// unanswered: see [Handed.Suspects]. It reports whether the death has been blamed on one
// request, which will not be answered again; then it does not count as one that ends the
// mount.
func (s *Supervisor) blame(cause error) (blamed bool) {
	suspected := s.c.Handed.Suspects
	if s.c.Handed.Suspects = false; !fault(cause, oomKills() != s.oomKills) {
		return false
	}
	now := time.Now()
	for len(s.faults) > 0 && now.Sub(s.faults[0]) > within {
		s.faults = s.faults[1:]
	}
	s.faults = append(s.faults, now)
	s.c.Handed.Suspects = len(s.faults) >= minFaults
	return suspected && len(s.faults) < maxFaults
}

// fault reports whether a process ended by what it did, and not because somebody killed it.
// oom: the system has killed some process for memory meanwhile.
func fault(cause error, oom bool) bool {
	var exit *exec.ExitError
	var stuck *StuckError
	var status syscall.WaitStatus
	switch {
	case errors.As(cause, &exit):
		status, _ = exit.Sys().(syscall.WaitStatus)
	case errors.As(cause, &stuck):
		status = stuck.Status
	}
	switch {
	case status == 0:
		return oom && cause != nil
	case !status.Signaled():
		return true
	case status.Signal() == unix.SIGKILL:
		return oom
	}
	return status.Signal() != unix.SIGTERM && status.Signal() != unix.SIGINT
}

// oomKills is how many processes the system has killed for memory; 0 where it does not tell.
func oomKills() (n int64) {
	text, _ := os.ReadFile("/proc/vmstat")
	_, rest, _ := strings.Cut(string(text), "\noom_kill ")
	_, _ = fmt.Sscan(rest, &n)
	return n
}
