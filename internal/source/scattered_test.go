package source

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// resident is how many bytes of a file the page cache holds.
func resident(t *testing.T, name string) (n int64) {
	t.Helper()
	f, err := os.Open(name)
	testenv.Must(t, err)
	defer f.Close()
	st, err := f.Stat()
	testenv.Must(t, err)
	page := os.Getpagesize()
	data, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	testenv.Must(t, err)
	defer func() { _ = unix.Munmap(data) }()
	pages := make([]byte, (len(data)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)),
		uintptr(unsafe.Pointer(unsafe.SliceData(pages)))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int64(p & 1)
	}
	return n * int64(page)
}

// TestScattered: of a file that is looked at less is read than the system would.
func TestScattered(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "a.jpg")
	testenv.Must(t, os.WriteFile(name, make([]byte, 1<<20), 0o644))
	d := open(t, root, Options{})
	page := int64(os.Getpagesize())
	look := func(scattered bool) int64 {
		f, err := d.Open("a.jpg")
		testenv.Must(t, err)
		defer f.Close()
		testenv.Must(t, unix.Fsync(f.Opened.(*directoryFile).fd))
		testenv.Must(t, unix.Fadvise(f.Opened.(*directoryFile).fd, 0, 0, unix.FADV_DONTNEED))
		if n := resident(t, name); n > 0 {
			t.Skipf("the file system keeps %d bytes in memory that it was told to drop", n)
		}
		if scattered {
			f.Scattered()
		}
		if _, err := f.ReadAt(make([]byte, 16), 0); err != nil {
			t.Fatal(err)
		}
		return resident(t, name)
	}
	ahead := look(false)
	if ahead <= page {
		t.Skipf("the system reads nothing ahead: %d bytes", ahead)
	}
	if n := look(true); n >= ahead {
		t.Errorf("%d bytes were read, with read-ahead %d", n, ahead)
	}
}
