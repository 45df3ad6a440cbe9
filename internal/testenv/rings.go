package testenv

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ringSwitch says whether new mounts may have FUSE over io_uring.
const ringSwitch = "/sys/module/fuse/parameters/enable_uring"

// HasRings reports whether FUSE over io_uring can be turned on here.
func HasRings() bool {
	f, err := os.OpenFile(ringSwitch, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// WithRings turns FUSE over io_uring on while f mounts, and then back to what it was. Other
// processes that do the same wait.
func WithRings(t testing.TB, f func()) {
	t.Helper()
	file, err := os.OpenFile(ringSwitch, os.O_RDWR, 0)
	Must(t, err)
	defer file.Close()
	Must(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	before := make([]byte, 8)
	n, err := file.ReadAt(before, 0)
	if n == 0 {
		t.Fatal(ringSwitch, err)
	}
	if !strings.HasPrefix(string(before), "Y") {
		Must(t, os.WriteFile(ringSwitch, []byte("Y"), 0))
		defer func() { Must(t, os.WriteFile(ringSwitch, before[:n], 0)) }()
	}
	f()
}
