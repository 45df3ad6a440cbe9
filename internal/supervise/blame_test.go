package supervise

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
)

// TestFault: a daemon that crashed is told from one that somebody killed, also where it cannot be reaped.
func TestFault(t *testing.T) {
	stuck := func(s syscall.WaitStatus) error { return &StuckError{Status: s} }
	ended := func(script string) error { return exec.Command("sh", "-c", script).Run() }
	for _, c := range []struct {
		name  string
		cause error
		oom   bool
		want  bool
	}{
		{"exit status", ended("exit 2"), false, true},
		{"abort", ended("kill -ABRT $$"), false, true},
		{"kill", ended("kill -KILL $$"), false, false},
		{"kill for memory", ended("kill -KILL $$"), true, true},
		{"term", ended("kill -TERM $$"), false, false},
		{"stuck after an exit status", stuck(2 << 8), false, true},
		{"stuck after an abort", stuck(syscall.WaitStatus(syscall.SIGABRT)), false, true},
		{"stuck after a kill", stuck(syscall.WaitStatus(syscall.SIGKILL)), false, false},
		{"stuck, unknown", stuck(0), false, false},
		{"something else", errors.New("no process"), false, false},
		{"nothing", nil, true, false},
	} {
		if got := fault(c.cause, c.oom); got != c.want {
			t.Errorf("%s (%v): %v", c.name, c.cause, got)
		}
	}
}
