package daemon

import (
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late a thread of the daemon may be woken by a timer.
//
// Go's runtime has a thread that watches the others. While a file system answers
// requests it wakes every 20 µs, to see whether a thread that waits for the next
// request should give up its place. Beside a loader that keeps all cores busy
// these wake-ups took half of the daemon's CPU time, 0.25 ms for each file read.
// Nothing here needs timers of better than a millisecond.
const timerSlack = time.Millisecond

// startCalm starts a process with that slack for all its threads. It is
// inherited from the thread that forks, and survives the exec.
func startCalm(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }()
	}
	return cmd.Start()
}
