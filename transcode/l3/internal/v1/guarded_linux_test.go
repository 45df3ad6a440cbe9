package v1

import (
	"os"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

var mappings = map[*byte][]byte{}

// guarded returns n bytes of memory that nothing lies next to: on the side asked for,
// the byte after or before them cannot be touched. n must be at least 1.
func guarded(t testing.TB, n int, atEnd bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	inner := (n + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	testenv.Must(t, err)
	for _, edge := range [][]byte{b[:page], b[page+inner:]} {
		testenv.Must(t, syscall.Mprotect(edge, syscall.PROT_NONE))
	}
	inside := b[page : page+n : page+n]
	if atEnd {
		inside = b[page+inner-n : page+inner : page+inner]
	}
	mappings[&inside[0]] = b
	return inside
}

// release gives memory of guarded back.
func release(b []byte) {
	_ = syscall.Munmap(mappings[&b[0]])
	delete(mappings, &b[0])
}
