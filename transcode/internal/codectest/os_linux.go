package codectest

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// Guarded returns n bytes of memory that nothing lies next to: on the side asked for, the
// byte after or before them cannot be touched. The memory is there until free is called.
func Guarded(t testing.TB, n int, atEnd bool) (b []byte, free func()) {
	t.Helper()
	page := os.Getpagesize()
	inner := (n + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	testenv.Must(t, err)
	free = func() { _ = syscall.Munmap(all) }
	for _, edge := range [][]byte{all[:page], all[page+inner:]} {
		testenv.Must(t, syscall.Mprotect(edge, syscall.PROT_NONE))
	}
	if atEnd {
		return all[page+inner-n : page+inner : page+inner], free
	}
	return all[page : page+n : page+n], free
}

// cpuTime is what this process has used of processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	testenv.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
