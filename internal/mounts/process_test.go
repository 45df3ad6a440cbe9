package mounts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestEnded: this process runs, and one that has ended and was not reaped does not.
func TestEnded(t *testing.T) {
	cmd := exec.Command("true")
	testenv.Must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	testenv.EventuallyIs(t, "it has ended", func() bool { return Ended(cmd.Process.Pid) })
	if !Zombie(cmd.Process.Pid) || Ended(os.Getpid()) || Zombie(os.Getpid()) {
		t.Error("another state")
	}
}

// TestStuck: a process that was killed, and of which one thread waits in the kernel, has ended; what it
// died of is known, and nobody waits for a lock that it holds.
func TestStuck(t *testing.T) {
	for name, first := range map[string]bool{"first thread": true, "another thread": false} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			pid := testenv.Stuck(t, path, first)
			testenv.EventuallyIs(t, "it has ended", func() bool { return Ended(pid) })
			if s := ExitStatus(pid); !s.Signaled() || s.Signal() != syscall.SIGKILL {
				t.Errorf("status %#x", int(s))
			}
			f, err := os.Open(path)
			testenv.Must(t, err)
			defer f.Close()
			if err := Lock(t.Context(), f, unix.LOCK_EX); !errors.Is(err, ErrEnded) {
				t.Errorf("the lock: %v, want ErrEnded", err)
			}
		})
	}
}

// TestLock waits for a process that runs.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := os.Create(path)
	testenv.Must(t, err)
	f, err := os.Open(path)
	testenv.Must(t, err)
	defer f.Close()
	testenv.Must(t, Lock(t.Context(), held, unix.LOCK_EX))
	if heldByEnded(f) {
		t.Error("a lock of this process is taken for that of one that has ended")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Lock(ended, f, unix.LOCK_SH); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	done := make(chan error)
	go func() { done <- Lock(t.Context(), f, unix.LOCK_SH) }()
	held.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
