package mounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Zombie reports whether the first thread of a process has ended, and the process has not
// been reaped.
func Zombie(pid int) bool {
	fields, err := StatFields(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && len(fields) > 0 && fields[0] == "Z"
}

// Ended reports whether nothing of a process that has not been reaped is going to run: each of its
// threads has ended, or has been killed and waits in the kernel where no signal wakes it. A thread of
// a FUSE daemon waits there for an answer that only the next daemon gives, and all that the process
// holds, files and locks among it, stays held as long.
func Ended(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return len(threads) > 0 && !slices.ContainsFunc(threads, func(stat string) bool {
		fields, err := StatFields(stat)
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !ended(fields)
	})
}

// ended is Ended for a thread, from the fields of its stat file.
func ended(fields []string) bool {
	const (
		flags, signals = 9 - firstField, 31 - firstField // numbers in proc(5)
		exiting        = 0x4                             // PF_EXITING, of the kernel's sched.h
		killed         = 1 << (unix.SIGKILL - 1)
	)
	if len(fields) <= signals {
		return false
	}
	switch fields[0] {
	case "Z", "X":
		return true
	case "D":
		f, _ := strconv.ParseUint(fields[flags], 10, 64)
		s, _ := strconv.ParseUint(fields[signals], 10, 64)
		return f&exiting != 0 || s&killed != 0
	}
	return false
}

// ExitStatus is what a process ended with that has not been reaped. It is 0 where the system
// does not tell.
func ExitStatus(pid int) syscall.WaitStatus {
	const exitCode = 52 - firstField
	fields, err := StatFields(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || len(fields) <= exitCode {
		return 0
	}
	status, _ := strconv.ParseUint(fields[exitCode], 10, 16)
	return syscall.WaitStatus(status)
}

// firstField is the number of the first field, in proc(5), that StatFields returns.
const firstField = 3

// StatFields returns the fields of a stat file of /proc that follow the name, which may hold anything:
// the first is the state.
func StatFields(name string) ([]string, error) {
	stat, err := os.ReadFile(name)
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])), err
}

// ErrEnded says that a lock is held by a process that has [Ended].
var ErrEnded = errors.New("held by a process that was killed and waits in the kernel")

// Lock locks a file, see flock(2), once no other process holds a lock that excludes it. It fails with
// [ErrEnded] where that may take until the next daemon of a mount answers: whoever starts as that daemon
// must not wait for it.
func Lock(ctx context.Context, f *os.File, how int) error {
	const longest = 32 // ms between two looks
	for wait := 1; ; wait = min(2*wait, longest) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		case wait == longest && heldByEnded(f):
			return &os.PathError{Op: "lock", Path: f.Name(), Err: ErrEnded}
		}
		if ctx.Err() != nil {
			return &os.PathError{Op: "lock", Path: f.Name(), Err: ctx.Err()}
		}
		// A sleep in the kernel, as flock(2) itself: callers hold mutexes, and the clock of a simulation stands
		// still while others wait for these.
		_, _ = unix.Poll(nil, wait)
	}
}

// heldByEnded reports whether all processes that hold a lock on a file have ended. It is false where the
// system does not tell who they are, as of those in another PID namespace.
func heldByEnded(f *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	text, _ := os.ReadFile("/proc/locks")
	found := false
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK  ADVISORY  WRITE 4711 fe:00:262145 0 EOF
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != file {
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err != nil || pid <= 0 || !Ended(pid) {
			return false
		}
		found = true
	}
	return found
}
