package mountd

import (
	"os"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/supervise"
)

// Supervise is the life of a daemon: it returns when the mount is gone, or when open files
// do not let it go. A signal ends the mount, patiently; a second one ends it at once. A
// daemon in the background also ends when nobody is left who could see the mount, and that
// of a shared mount when it has no holder left. One in the foreground tells the service
// manager that it ends. A daemon that has a supervisor leaves all this to it, and returns as
// well when it is told to stop: then the mount stays.
func (m *Mount) Supervise(signals chan os.Signal, background bool) error {
	if m.config.Kernel.Leash != nil {
		if ended, err := m.serveOnLeash(signals); ended {
			return err
		}
	}
	dir := m.config.Dir
	m.holders.Expect(control.UntilHeld)
	e := m.ending()
	var unseen <-chan struct{}
	if background {
		unseen = e.Unseen(func() []int { return nil })
	}
	select {
	case <-m.Done():
		m.holders.End()
		m.log.Info("unmounted", "mount", dir)
		return m.closeAll()
	case <-unseen:
		m.log.Info("stopping: this mount namespace has no other process, so nobody can see the mount", "mount", dir)
	case <-m.holders.Gone():
		m.log.Info("stopping: nobody holds this shared mount", "mount", dir)
	case s := <-signals:
		m.log.Info("stopping", "signal", s.String())
		if !background {
			if _, err := daemon.SdNotify(false, daemon.SdNotifyStopping); err != nil {
				m.log.Warn("systemd", "cause", err)
			}
		}
	}
	m.holders.End()
	if e.Run(signals) {
		return m.closeAll()
	}
	// Requests may be under way: what stands behind them must not be closed while they
	// use it.
	m.abandon()
	return nil
}

func (m *Mount) ending() *supervise.Ending {
	return &supervise.Ending{Dir: m.config.Dir, Place: m.place, Done: m.Done(), Log: m.log}
}

// serveOnLeash is the life of a daemon that has a supervisor. It returns false where that
// is gone: the daemon goes on alone.
func (m *Mount) serveOnLeash(signals chan os.Signal) (ended bool, err error) {
	leash := m.config.Kernel.Leash
	for {
		select {
		case <-m.Done():
			return true, m.closeAll()
		case <-leash.Asked():
			m.log.Info("stopping: the supervisor goes on with another daemon")
			m.point.Leave()
			return true, m.closeAll()
		case <-leash.Lost():
			m.log.Warn("the supervisor of this daemon is gone: if the daemon dies, the mount ends; SIGTERM unmounts", "pid", os.Getpid())
			return false, nil
		case s := <-signals:
			if !leash.Ask() {
				signals <- s // for those who end the mount themselves
				return false, nil
			}
			m.log.Info("the supervisor is asked to end the mount", "signal", s.String())
		}
	}
}
