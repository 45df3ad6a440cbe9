package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
)

// simSystem is a mount with daemons that die, hang, do not come up, or stop late. A request that no daemon has answered waits for
// the next one, until the connection ends. It ends when the mount is gone and nothing is open, when it is aborted, and when
// neither a daemon nor the supervisor holds it.
type simSystem struct {
	s         *testenv.Sim
	calm      bool // daemons neither die nor hang
	abortable bool

	mu sync.Mutex
	simState
}

type simState struct {
	busy      bool // a file is open
	mounted   bool
	connected bool
	held      bool      // by the supervisor
	alone     bool      // nobody is left who could see the mount
	wished    time.Time // since when somebody wants it to end
	daemon    *simDaemon
	launches  int
}

type simDaemon struct {
	*Process
	serving, hung, dying, dead bool
	stuck                      bool // a thread of it holds the connection until that ends
	work                       int
}

var errSim = errors.New("it does not come up")

// do looks at the state, or changes it.
func (m *simSystem) do(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// state is a copy.
func (m *simSystem) state() (now simState) {
	m.do(func() { now = m.simState })
	return now
}

// wish notes that the mount is to end from here on.
func (m *simSystem) wish() {
	m.do(func() {
		if m.wished.IsZero() {
			m.wished = time.Now()
		}
	})
}

func (m *simSystem) launch(ctx context.Context, _ string) (*Process, *ControlPipe, error) {
	d := &simDaemon{Process: &Process{dead: make(chan struct{})}}
	d.kill = func() error { m.die(d, &StuckError{Status: syscall.WaitStatus(unix.SIGKILL)}); return nil }
	m.do(func() {
		if m.daemon != nil && !m.daemon.dead {
			m.s.Error("two daemons at a time")
		}
		if !m.held {
			m.s.Error("a daemon of a supervisor that has let go of the connection")
		}
		m.launches++
		d.PID, m.daemon = m.launches, d
	})
	takes := time.Duration(m.s.IntN(3000)) * time.Millisecond
	if !m.calm && m.s.OneIn(10) {
		takes = 10 * time.Second // and then it has not come up
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	if ctx.Err() != nil || takes == 10*time.Second || !m.calm && m.s.OneIn(4) {
		m.do(func() { d.dead = true })
		return nil, nil, errors.Join(errSim, ctx.Err())
	}
	ours, theirs := net.Pipe()
	pipe := newControlPipe(theirs)
	m.do(func() { d.serving = true })
	m.s.Go(func() { m.live(d, pipe) })
	return d.Process, newControlPipe(ours), nil
}

// live is what a daemon does beside answering.
func (m *simSystem) live(d *simDaemon, pipe *ControlPipe) {
	defer pipe.Close()
	fate := time.Duration(m.s.IntN(60_000)) * time.Millisecond
	if m.calm {
		fate = time.Hour
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	hung := false
	for began := time.Now(); ; {
		select {
		case <-d.Process.dead:
			return
		case <-pipe.Asked():
			if hung || m.s.OneIn(4) {
				continue // it does not stop
			}
			m.die(d, nil)
		case <-tick.C:
			switch {
			case !m.state().connected && !hung:
				m.die(d, nil)
			case !hung && m.s.OneIn(5000): // it wants the mount to end
				m.wish()
				pipe.Ask()
			case time.Since(began) < fate:
			case m.s.OneIn(3):
				hung, fate = true, time.Hour
				m.do(func() { d.hung = true })
			default:
				m.die(d, &StuckError{Status: []syscall.WaitStatus{2 << 8, syscall.WaitStatus(unix.SIGKILL), syscall.WaitStatus(unix.SIGABRT)}[m.s.IntN(3)]})
			}
		}
	}
}

// die ends a daemon, which takes a moment.
func (m *simSystem) die(d *simDaemon, cause error) {
	again := false
	m.do(func() { again, d.dying, d.serving = d.dying, true, false })
	if again {
		return
	}
	m.s.Go(func() {
		m.s.Sleep(300)
		d.err = cause
		m.do(func() {
			d.dead = true
			d.stuck = cause != nil && m.abortable && m.s.OneIn(3)
			m.connected = m.connected && (m.held || d.stuck)
		})
		close(d.Process.dead)
	})
}

// ask is a request. It is answered, or the connection ends.
func (m *simSystem) ask() (answered bool) {
	for connected := true; connected && !answered; {
		time.Sleep(time.Duration(1+m.s.IntN(20)) * time.Millisecond)
		m.do(func() {
			if connected = m.connected; connected && m.daemon.serving && !m.daemon.hung {
				m.daemon.work++
				answered = true
			}
		})
	}
	return answered
}

func (m *simSystem) look() { m.ask() }

func (m *simSystem) worked(p *Process) (text string) {
	m.do(func() {
		if m.daemon.Process == p {
			text = fmt.Sprint(p.PID, m.daemon.work)
		}
	})
	return text
}

func (m *simSystem) Unmount(lazy bool) (err error) {
	m.s.Yield()
	m.do(func() {
		if m.mounted && m.busy && !lazy {
			err = mounts.ErrBusy
			return
		}
		m.mounted = false
		m.connected = m.connected && m.busy
	})
	return err
}

func (m *simSystem) Seen(...int) (seen bool) {
	m.do(func() {
		m.alone = m.alone || m.s.OneIn(200)
		seen = !m.alone
	})
	if !seen {
		m.wish()
	}
	return seen
}

func (m *simSystem) ended() bool { return !m.state().connected }

func (m *simSystem) end() error {
	if m.abortable {
		m.do(func() { m.connected = false })
	}
	return nil
}

func (m *simSystem) close() error {
	m.do(func() {
		m.held = false
		m.connected = m.connected && (!m.daemon.dead || m.daemon.stuck)
	})
	return nil
}

// TestSimulation: readers of a mount whose daemons die, hang and do not come up, while other programs take over, somebody
// unmounts, and signals come. No two daemons serve at a time; a request is answered, or the connection ends; the mount ends when
// it is wished, or says why it cannot go on; nothing is left.
func TestSimulation(t *testing.T) {
	testenv.Simulate(t, 500, func(s *testenv.Sim) {
		m := &simSystem{s: s, calm: s.OneIn(4), abortable: !s.OneIn(4), simState: simState{mounted: true, connected: true, held: true}}
		signals := make(chan os.Signal, 2)
		c := Config{Restart: !s.OneIn(5), Patience: 10 * time.Second, Hung: time.Duration(s.IntN(2)) * 12 * time.Second, Resends: true, Log: slog.New(slog.DiscardHandler), Signals: signals}
		if s.OneIn(4) {
			c.Key = "shared"
		}
		v := newSupervisor(c)
		v.sys = m
		for v.launch(s.Context()) != nil {
		}
		finished, takeovers := make(chan struct{}), s.IntN(3)
		longest := 5 * time.Minute
		if c.Hung > 0 {
			longest = 2*c.Hung + 2*c.Patience
			if takeovers > 0 {
				longest += untilStopped
			}
		}
		for range 3 {
			s.Go(func() {
				for answered := true; answered; s.Sleep(500) {
					began := time.Now()
					answered = m.ask()
					if wait := time.Since(began); wait > longest {
						s.Errorf("a request waited for %v", wait)
					}
				}
			})
		}
		s.Go(func() { // files are open now and then
			for m.state().connected {
				s.Sleep(5000)
				m.do(func() {
					m.busy = m.connected && s.OneIn(2)
					m.connected = m.connected && (m.mounted || m.busy)
				})
			}
		})
		s.Go(func() { // other programs take over
			for range takeovers {
				s.Sleep(20_000)
				select {
				case <-finished:
					return
				default:
				}
				if _, err := v.takeover("another"); err != nil && m.calm && m.state().wished.IsZero() && c.Restart {
					s.Errorf("takeover: %v", err)
				}
			}
		})
		if c.Key != "" {
			s.Go(func() {
				for m.state().wished.IsZero() {
					s.Sleep(10_000)
					if release, err := v.holders.Hold(c.Key, time.Second); err == nil {
						s.Sleep(10_000)
						release()
					}
				}
			})
		}
		signaled := time.Time{}
		s.Go(func() { // and the end
			after := time.Duration(s.IntN(150_000)) * time.Millisecond
			for unmount := s.OneIn(4); ; unmount = false {
				select {
				case <-finished:
					return
				case <-time.After(after):
				}
				m.wish()
				after = time.Minute
				if unmount && m.Unmount(false) == nil {
					after = 2 * time.Minute
				} else if !unmount {
					if signaled.IsZero() {
						signaled = time.Now()
					}
					select {
					case signals <- unix.SIGTERM:
					default:
					}
				}
			}
		})
		err := v.Run(s.Context(), true)
		close(finished)
		ended, now := time.Now(), m.state()
		m.wish()
		switch {
		case err == nil && now.mounted:
			s.Error("the mount is left, without an error")
		case err != nil && !strings.Contains(err.Error(), "the daemon died") && !strings.Contains(err.Error(), "did not come up") && !strings.Contains(err.Error(), "nor did the one before"):
			s.Error(err)
		case err != nil && m.calm && c.Restart:
			s.Errorf("daemons do not die: %v", err)
		case now.held:
			s.Error("the connection is held")
		}
		s.Wait()
		limit := 10 * time.Second
		if takeovers > 0 {
			limit += untilStopped + 2*c.Patience
		}
		if took := ended.Sub(signaled); !signaled.IsZero() && took > limit {
			s.Errorf("%v after a signal", took)
		}
		if took := time.Since(ended); m.connected || !m.daemon.dead || took > time.Minute {
			s.Errorf("connection %v, daemon dead %v, after %v", m.connected, m.daemon.dead, took)
		}
		time.Sleep(time.Second) // for who looks
	})
}
