package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
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
	if s.gone() {
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
