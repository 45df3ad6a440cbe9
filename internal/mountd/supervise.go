package mountd

import (
	"errors"
	"os"

	"github.com/pipefs/pipefs/internal/supervise"
)

// Supervise is the life of a daemon: it returns when the mount is gone, when open files do
// not let it go, and when the supervisor goes on with another daemon. Then the mount stays.
// A signal has the supervisor end the mount. Where that is gone, or was never there, a signal
// ends the mount patiently, and a second one at once.
func (m *Mount) Supervise(signals chan os.Signal) error {
	pipe := m.config.Kernel.ControlPipe
	lost := pipe.Lost()
	for {
		select {
		case <-m.Done():
			m.log.Info("unmounted", "mount", m.config.Dir)
			return m.closeAll()
		case <-pipe.Asked():
			m.log.Info("stopping: the supervisor goes on with another daemon")
			m.point.Leave()
			return m.closeAll()
		case <-lost:
			if m.config.Shared != "" {
				m.log.Error("the supervisor is gone, and with it the holders of this shared mount: whoever reads from it gets an error", "mount", m.config.Dir)
				return m.end()
			}
			m.log.Warn("the supervisor of this daemon is gone: if the daemon dies, readers may wait until the mount is unmounted by force; SIGTERM unmounts", "pid", os.Getpid())
			lost = nil
		case s := <-signals:
			if pipe.Ask() {
				m.log.Info("the supervisor is asked to end the mount", "signal", s.String())
				continue
			}
			m.log.Info("stopping", "signal", s.String())
			e := supervise.Ending{Dir: m.config.Dir, Place: m.place, Done: m.Done(), Log: m.log}
			if e.Run(signals) {
				return m.closeAll()
			}
			return m.end()
		}
	}
}

// end ends the connection of the mount while files are open. Requests may be under way: what
// stands behind them is not closed while they use it.
func (m *Mount) end() error {
	m.abandon()
	abort, err := m.place.Abort()
	return errors.Join(err, abort.End())
}
