package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inChild runs a function of child and returns what it prints.
func inChild(t testing.TB, run string, args ...string) string {
	t.Helper()
	out, err := childCommand(run, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v\n%s", run, args, err, out)
	}
	return string(out)
}

func childCommand(run string, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "PIPEFS_TEST_CHILD="+run, "GORACE=atexit_sleep_ms=0")
	return c
}

func child(run string, args []string) int {
	var err error
	switch run {
	case "signals":
		err = openWithSignals(args[0])
	case "as":
		err = readAs(args[0])
	default:
		err = fmt.Errorf("no %q", run)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// openWithSignals opens and reads a file while it gets signals that it has a
// handler for.
func openWithSignals(path string) error {
	got := make(chan os.Signal, 100)
	signal.Notify(got, unix.SIGUSR1)
	stop := make(chan bool)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				// to every thread, so also to the one that waits
				tasks, _ := os.ReadDir("/proc/self/task")
				for _, task := range tasks {
					var tid int
					_, _ = fmt.Sscan(task.Name(), &tid)
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGUSR1)
				}
			}
		}
	}()
	defer close(stop)
	fd, err := unix.Open(path, unix.O_RDONLY, 0) // Go's own would try again
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if _, err := unix.Pread(fd, make([]byte, 100), 0); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(got) == 0 {
		return errors.New("no signals")
	}
	return unix.Close(fd)
}

// readAs reads a file as nobody.
func readAs(path string) error {
	if err := unix.Setresuid(65534, 65534, 65534); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, unix.EACCES):
		fmt.Print("EACCES")
	case err != nil:
		return err
	default:
		fmt.Print(strings.TrimSpace(string(data)))
	}
	return nil
}
