package v2

import (
	"os"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// decodeGuarded returns n bytes of memory that nothing lies next to: on the side asked
// for, the byte after or before them cannot be touched.
func decodeGuarded(t testing.TB, n int, atEnd bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	inner := (n + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	for _, edge := range [][]byte{b[:page], b[page+inner:]} {
		testenv.Must(t, syscall.Mprotect(edge, syscall.PROT_NONE))
	}
	if atEnd {
		return b[page+inner-n : page+inner : page+inner]
	}
	return b[page : page+n : page+n]
}
