package mountd

import (
	"errors"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/pipefs/pipefs/internal/mounts"
)

// A daemon that shall end waits so long for a mount that is busy, and serves open
// files so long after a lazy unmount: together less than what Docker, Kubernetes and
// Slurm give a process before they kill it, which would leave a dead mount behind.
const (
	untilLazy = 2 * time.Second
	lingering = time.Second
	// untilDone is how long a mount that nobody uses may take to end.
	untilDone = 5 * time.Second
)

// Supervise is the life of a daemon: it returns when the mount is gone, or when open files
// do not let it go. A signal ends the mount, patiently; a second one ends it at once. A
// daemon in the background also ends when nobody is left who could see the mount, and that
// of a shared mount when it has no holder left. One in the foreground tells the service
// manager that it ends.
func (m *Mount) Supervise(signals <-chan os.Signal, background bool) error {
	dir := m.config.Dir
	m.holders.expect(untilHeld)
	select {
	case <-m.Done():
		m.holders.end()
		m.log.Info("unmounted", "mount", dir)
		return m.closeAll()
	case <-m.unseen(background):
		m.log.Info("stopping: this mount namespace has no other process, so nobody can see the mount", "mount", dir)
	case <-m.holders.gone():
		m.log.Info("stopping: nobody holds this shared mount", "mount", dir)
	case s := <-signals:
		m.log.Info("stopping", "signal", s.String())
		if !background {
			if _, err := daemon.SdNotify(false, daemon.SdNotifyStopping); err != nil {
				m.log.Warn("systemd", "cause", err)
			}
		}
	}
	m.holders.end()
	if left, ok := m.unmount(signals); ok && m.outlast(left, signals) {
		return m.closeAll()
	}
	// Requests may be under way: what stands behind them must not be closed while they
	// use it.
	m.abandon()
	return nil
}

// unseen is closed when nobody is left who could see the mount of a daemon in the
// background: a namespace whose last process ends would otherwise live on with the
// daemon, and the daemon with it. nil is never closed.
func (m *Mount) unseen(background bool) <-chan struct{} {
	if !background {
		return nil
	}
	alone := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		// Twice: the first process may be about to be replaced by the next.
		for times := 0; times < 2; {
			select {
			case <-m.Done():
				return
			case <-tick.C:
			}
			if times++; m.place.Seen() {
				times = 0
			}
		}
		close(alone)
	}()
	return alone
}

// unmount takes the mount away: patiently, then lazily, and at once when asked a second
// time. It returns how long what is left may take to end; ok is false where the mount
// cannot be taken away.
func (m *Mount) unmount(signals <-chan os.Signal) (left time.Duration, ok bool) {
	patience := time.NewTimer(untilLazy)
	defer patience.Stop()
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	because := ""
	for told := false; because == ""; {
		err := m.place.Unmount(false)
		if err == nil {
			return untilDone, true
		}
		if !told && !errors.Is(err, mounts.ErrBusy) {
			told = true
			m.log.Warn("unmounting", "cause", err)
		}
		select {
		case <-m.Done():
			return untilDone, true
		case <-retry.C:
		case <-patience.C:
			because = "it stayed busy"
		case <-signals:
			because = "a second signal"
		}
	}
	for _, p := range mounts.Users(m.config.Dir, 5) {
		m.log.Warn("the mount is busy", "pid", p.PID, "program", p.Name, "uses", p.Uses)
	}
	if err := m.place.Unmount(true); err != nil {
		m.log.Error("unmounting lazily", "cause", err)
		return 0, false
	}
	m.log.Warn("unmounted lazily: files that are open can be read a little longer", "because", because, "seconds", lingering.Seconds())
	return lingering, true
}

// outlast waits until the last open file is closed. It returns false where that takes
// too long, or a signal comes first.
func (m *Mount) outlast(left time.Duration, signals <-chan os.Signal) bool {
	select {
	case <-m.Done():
		m.log.Info("unmounted", "mount", m.config.Dir)
		return true
	case <-time.After(left):
	case <-signals:
	}
	m.log.Warn("ending while files are open: their readers get an error", "mount", m.config.Dir)
	return false
}
