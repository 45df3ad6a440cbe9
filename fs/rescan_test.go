package fs

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// What changed behind the back of a mount that looks for no changes is there after Rescan, in
// every view, and files that changed are others.
func TestRescan(t *testing.T) {
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		t.Run(mode.String(), func(t *testing.T) {
			m := mount(t, mode, freshness(Immutable))
			m.write("a/1.jpg", "first")
			m.write("a/2.jpg", "second")
			m.write("b/3.jpg", "third")
			m.want(string(derived("bmp", []byte("first"))), "bmp", "a/1.bmp")
			m.want("second", "original", "a/2.jpg")
			m.want("third", "original", "b/3.jpg")
			first, second := inode(t, m.path("bmp", "a/1.bmp")), inode(t, m.path("original", "a/2.jpg"))
			m.names("original", "a")
			if mode == DaemonCache {
				m.forget()
			}
			tick(t)
			m.write("a/1.jpg", "other bytes")
			m.write("a/4.jpg", "fourth")
			m.write("c/d/5.jpg", "fifth")
			testenv.Must(t, os.RemoveAll(m.src+"/b"))

			testenv.Must(t, m.fs.Rescan(t.Context(), nil))
			if got := m.names("original"); got != "a c" {
				t.Errorf("the root holds %q", got)
			}
			if got := m.names("bmp", "a"); got != "1.bmp 2.bmp 4.bmp" {
				t.Errorf("a holds %q", got)
			}
			m.want(string(derived("bmp", []byte("other bytes"))), "bmp", "a/1.bmp")
			m.want("other bytes", "original", "a/1.jpg")
			m.want("second", "original", "a/2.jpg")
			m.want("fifth", "original", "c/d/5.jpg")
			if _, err := os.Stat(m.path("original", "b/3.jpg")); !os.IsNotExist(err) {
				t.Errorf("a file that went: %v", err)
			}
			if inode(t, m.path("bmp", "a/1.bmp")) == first || inode(t, m.path("original", "a/2.jpg")) != second {
				t.Error("inodes are not those of the versions")
			}
		})
	}
}

// A file that is said to be replaced is another one though its attributes are the same. A reader
// that still has the old file open goes on as long as its handle is there. It never gets bytes of the new one.
func TestRescanReplaced(t *testing.T) {
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		t.Run(mode.String(), func(t *testing.T) {
			m := mount(t, mode, freshness(Immutable))
			m.write("a/1.jpg", noise(300_000, 1))
			m.write("a/2.jpg", noise(300_000, 2))
			m.want(noise(300_000, 1), "original", "a/1.jpg")
			m.want(noise(300_000, 2), "original", "a/2.jpg")
			first, second := inode(t, m.path("original", "a/1.jpg")), inode(t, m.path("original", "a/2.jpg"))
			open, err := os.Open(m.path("original", "a/1.jpg"))
			testenv.Must(t, err)
			defer open.Close()
			rest := func(from int64) (string, error) {
				testenv.Must(t, unix.Fadvise(int(open.Fd()), 0, 0, unix.FADV_DONTNEED))
				b := make([]byte, 1000)
				_, err := open.ReadAt(b, from)
				return string(b), err
			}

			replaced := func(path string) bool { return path == "a/1.jpg" }
			testenv.Must(t, m.fs.Rescan(t.Context(), replaced))
			m.fs.ResolveAgain()
			if inode(t, m.path("original", "a/1.jpg")) == first || inode(t, m.path("original", "a/2.jpg")) != second {
				t.Error("inodes are not those of what was replaced")
			}
			if got, err := rest(100_000); err != nil || got != noise(300_000, 1)[100_000:101_000] {
				t.Errorf("a file that was replaced, and whose handle is there: %v", err)
			}
			m.fs.handles.forget(func(uint64) bool { return true })
			if got, err := rest(200_000); mode == PageCache && !errors.Is(err, unix.ESTALE) || err == nil && got != noise(300_000, 1)[200_000:201_000] {
				t.Errorf("without its handle: %v", err)
			}
			m.want(noise(300_000, 1), "original", "a/1.jpg")
		})
	}
}
