package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// changes are the ways in which a file of the dataset changes.
var changes = map[string]func(m *mounted, name, content string){
	"rewritten": func(m *mounted, name, content string) { m.write(name, content) },
	"replaced":  func(m *mounted, name, content string) { m.replace(name, content) },
	"truncated": func(m *mounted, name, _ string) {
		if err := os.Truncate(filepath.Join(m.src, name), 1000); err != nil {
			m.t.Fatal(err)
		}
	},
}

// TestChangedSources: what a reader gets is the old version, the new one, or
// ESTALE; and once it was told, the new one.
func TestChangedSources(t *testing.T) {
	for how := range changes {
		for _, read := range []bool{false, true} {
			for _, view := range []string{"original", "bmp"} {
				t.Run(fmt.Sprintf("%s/read=%v/%s", how, read, view), func(t *testing.T) {
					test := func(t *testing.T, m *mounted) { changedSource(t, m, view, how, read) }
					inBoth(t, test)
					inWatched(t, test)
				})
			}
		}
	}
}

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

func changedSource(t *testing.T, m *mounted, view, how string, read bool) {
	old := noise(200_000, 1)
	m.write("d/a.jpg", old)
	m.write("d/other.jpg", "other")
	path := m.path(view, "d/a.jpg")
	show := func(src string) string { return string(derived(view, []byte(src))) }
	before := inode(t, path)
	if read {
		m.want(show(old), view, "d/a.jpg")
		released(t, m)
		m.p.forget()
	}
	f, err := os.Open(path)
	testenv.Must(t, err)
	defer f.Close()
	first := make([]byte, 10)
	if _, err := f.ReadAt(first, 0); err != nil || string(first) != show(old)[:10] {
		t.Fatalf("before it changed: %v", err)
	}

	tick(t)
	changes[how](m, "d/a.jpg", noise(300_000, 2))
	now, err := os.ReadFile(filepath.Join(m.src, "d/a.jpg"))
	testenv.Must(t, err)

	// Who has it open: old, or an error, but nothing of the new one.
	got, err := io.ReadAll(f)
	if err != nil && !errors.Is(err, unix.ESTALE) && !errors.Is(err, unix.EIO) || !strings.HasPrefix(show(old), string(got)) {
		t.Errorf("an open file: %d bytes, %v", len(got), err)
	}
	if err == nil && string(got) != show(old) {
		t.Errorf("an open file ends after %d bytes of %d", len(got), len(show(old)))
	}
	f.Close()
	// Who opens it: one of the two, whole, or an error.
	if got, err := os.ReadFile(path); err == nil && string(got) != show(old) && string(got) != show(string(now)) {
		t.Errorf("a mixture of %d bytes", len(got))
	} else if err != nil && !errors.Is(err, unix.ESTALE) {
		t.Error(err)
	}
	if m.fs.mode == DaemonCache {
		released(t, m)
		m.told()
		m.want(show(string(now)), view, "d/a.jpg") // every open looks
	}
	if read && m.fs.mode == PageCache && m.fs.live == nil && how != "replaced" {
		// The directory is the same, and all pages are cached: nobody looks at the
		// file until the kernel forgets its name.
		m.fs.notify.entries(m.fs.tree.dir(m.fs.tree.dirs[rootID].snap.Load().at(0)), &changeOf)
	}
	if m.fs.live == nil {
		m.names(view, "d")
		m.told()
		m.want(show(string(now)), view, "d/a.jpg")
	}
	m.holds(show(string(now)), view, "d/a.jpg")
	if inode(t, path) == before {
		t.Error("a changed file has the same inode")
	}
	if log := m.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("log:\n%s", log)
	}
}

var changeOf = change{names: []string{"a.jpg"}}

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

// TestMappedFilesDoNotChange: who mapped a file sees the version that it mapped.
func TestMappedFilesDoNotChange(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("a.jpg", noise(100_000, 1))
		for _, path := range []string{"original/a.jpg", "bmp/a.bmp"} {
			c := childCommand("mapped", m.path(path))
			in, _ := c.StdinPipe()
			out, _ := c.StdoutPipe()
			c.Stderr = os.Stderr
			testenv.Must(t, c.Start())
			if _, err := out.Read(make([]byte, 10)); err != nil {
				t.Error(err)
			}
			m.replace("a.jpg", noise(100_000, 2))
			m.names(filepath.Dir(path))
			m.told()
			if _, err := m.read(path); err != nil {
				t.Error(err)
			}
			in.Close()
			rest, _ := io.ReadAll(out)
			if err := c.Wait(); err != nil {
				t.Errorf("%s: %v: %s", path, err, rest)
			}
		}
	})
}
