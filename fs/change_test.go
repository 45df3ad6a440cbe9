package fs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// tick waits for the clock of the file system to move on: what is written then has another
// mtime than what was written before.
func tick(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tick")
	written := func() time.Time {
		testenv.Must(t, os.WriteFile(file, nil, 0o644))
		st, err := os.Stat(file)
		testenv.Must(t, err)
		return st.ModTime()
	}
	first := written()
	testenv.EventuallyIs(t, "the clock moves", func() bool { return !written().Equal(first) })
}

func TestAddedAndDeleted(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("d/a.jpg", "a")
		bmp := func(s string) string { return string(derived("bmp", []byte(s))) }
		m.want(bmp("a"), "bmp/d/a.bmp")
		// A second source of the same stem changes the name of the first.
		m.write("d/a.png", "png")
		m.want(bmp("png"), "bmp/d/a.png.bmp") // found without listing
		if got := m.names("bmp/d"); got != "a.jpg.bmp a.png.bmp" {
			t.Error(got)
		}
		m.told()
		m.want(bmp("a"), "bmp/d/a.jpg.bmp")
		if _, err := os.Stat(m.path("bmp/d/a.bmp")); !errors.Is(err, unix.ENOENT) {
			t.Errorf("a name that is no longer listed: %v", err)
		}
		os.Remove(filepath.Join(m.src, "d/a.png"))
		if got := m.names("bmp/d"); got != "a.bmp" {
			t.Error(got)
		}
		m.told()
		for _, gone := range []string{"bmp/d/a.png.bmp", "bmp/d/a.png", "bmp/d/a.jpg.bmp", "original/d/a.png"} {
			if _, err := os.Stat(m.path(gone)); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s: %v", gone, err)
			}
		}
		m.want(bmp("a"), "bmp/d/a.bmp")
		// deleted without anybody listing
		m.write("d/b.jpg", noise(50_000, 3))
		if _, err := os.Stat(m.path("bmp/d/b.bmp")); err != nil {
			t.Error(err)
		}
		os.Remove(filepath.Join(m.src, "d/b.jpg"))
		if _, err := os.ReadFile(m.path("bmp/d/b.bmp")); !errors.Is(err, unix.ESTALE) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("reading what was deleted: %v", err)
		}
		m.told()
		if _, err := os.Stat(m.path("bmp/d/b.bmp")); !errors.Is(err, unix.ENOENT) {
			t.Errorf("looking up what was deleted: %v", err)
		}
		// a directory that becomes a file, and back
		os.RemoveAll(filepath.Join(m.src, "d"))
		m.write("d", "file now")
		if got := m.names("bmp"); got != "d" {
			t.Error(got)
		}
		m.told()
		m.want("file now", "bmp/d")
		os.Remove(filepath.Join(m.src, "d"))
		m.write("d/c.jpg", "c")
		m.names("bmp")
		m.told()
		m.want(bmp("c"), "bmp/d/c.bmp")
		m.want("c", "original/d/c.jpg")
	})
}
