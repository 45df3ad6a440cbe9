package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/daemon"
)

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
	var stuck *daemon.StuckError
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
