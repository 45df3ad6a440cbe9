package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// holds waits until a file of the mount holds content, or is gone. It lists nothing.
func (m *mounted) holds(content string, name ...string) {
	m.t.Helper()
	testenv.Eventually(m.t, func() error {
		data, err := os.ReadFile(m.path(name...))
		if content == gone && errors.Is(err, unix.ENOENT) || err == nil && string(data) == content {
			return nil
		}
		return fmt.Errorf("%s: %d bytes, %.60q, %w", m.path(name...), len(data), data, err)
	})
}

func (m *mounted) link(name, target string) {
	m.t.Helper()
	path := filepath.Join(m.src, name)
	testenv.Must(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.Must(m.t, os.Symlink(target, path+".tmp"))
	testenv.Must(m.t, os.Rename(path+".tmp", path))
}

// TestLinksAreWatched: what a link stands for changes elsewhere.
func TestLinksAreWatched(t *testing.T) {
	outside := t.TempDir()
	testenv.Must(t, os.MkdirAll(filepath.Join(outside, "far"), 0o755))
	m := mount(t, PageCache, freshness(Watched))
	far := filepath.Join(outside, "far/x")
	testenv.Must(t, os.WriteFile(far, []byte("far"), 0o644))
	m.write("blobs/1", "one")
	m.write("blobs/2", "two")
	m.write("v1/a.jpg", "version 1")
	m.write("v2/a.jpg", "version 2")
	m.link("snap/main/a.jpg", "../../blobs/1")
	m.link("snap/main/again.jpg", "../../blobs/1")
	m.link("snap/other/hop.jpg", "../main/a.jpg")
	m.link("snap/out.jpg", far)
	m.link("current", "v1")
	all := func(one string) {
		t.Helper()
		for _, name := range []string{"snap/main/a.jpg", "snap/main/again.jpg", "snap/other/hop.jpg"} {
			m.holds(one, "original", name)
			m.holds(string(derived("bmp", []byte(one))), "bmp", strings.TrimSuffix(name, "jpg")+"bmp")
		}
	}
	all("one")
	m.holds("far", "original/snap/out.jpg")
	m.holds("version 1", "original/current/a.jpg")
	m.names("original/blobs")

	m.write("blobs/1", "ONE") // in place
	all("ONE")
	m.replace("blobs/1", "replaced")
	all("replaced")
	m.link("snap/main/a.jpg", "../../blobs/2")
	m.holds("two", "original/snap/main/a.jpg")
	m.holds("two", "original/snap/other/hop.jpg")
	m.holds("replaced", "original/snap/main/again.jpg")
	m.write("blobs/2", "TWO")
	m.holds("TWO", "original/snap/main/a.jpg")
	m.holds("TWO", "original/snap/other/hop.jpg")
	testenv.Must(t, os.WriteFile(far, []byte("FAR"), 0o644))
	m.holds("FAR", "original/snap/out.jpg")
	testenv.Must(t, os.Remove(far))
	m.holds(gone, "original/snap/out.jpg")

	m.write("v1/a.jpg", "VERSION 1")
	m.holds("VERSION 1", "original/current/a.jpg")
	m.link("current", "v2")
	m.holds("version 2", "original/current/a.jpg")
	m.write("v2/a.jpg", "VERSION 2")
	m.holds("VERSION 2", "original/current/a.jpg")
	// the directory in which targets lie is moved, and another one takes its place
	m.write("blobs.new/1", "new one")
	m.write("blobs.new/2", "new two")
	testenv.Must(t, os.Rename(filepath.Join(m.src, "blobs"), filepath.Join(m.src, "blobs.old")))
	testenv.Must(t, os.Rename(filepath.Join(m.src, "blobs.new"), filepath.Join(m.src, "blobs")))
	m.holds("new one", "original/snap/main/again.jpg")
	m.holds("new two", "original/snap/main/a.jpg")
	m.write("blobs/2", "newer two")
	m.holds("newer two", "original/snap/other/hop.jpg")
	// a file takes the place of a link
	m.replace("snap/main/a.jpg", "a file")
	m.holds("a file", "original/snap/main/a.jpg")
	m.holds("a file", "original/snap/other/hop.jpg")
}

// TestMovedDirectoriesAreWatchedNoMore: a directory that went is not watched, and what
// it was has no end.
func TestMovedDirectoriesAreWatchedNoMore(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	aside := t.TempDir()
	m.write("d/e/a.jpg", "old")
	m.write("other/a.jpg", "other")
	before := 0
	for i := range 20 {
		m.holds("old", "original/d/e/a.jpg")
		m.holds("other", "original/other/a.jpg")
		if i == 0 {
			before = m.fs.Stats().Watched
		}
		testenv.Must(t, os.Rename(filepath.Join(m.src, "d"), filepath.Join(aside, fmt.Sprint(i))))
		m.holds(gone, "original/d/e/a.jpg")
		m.write("d/e/a.jpg", "old")
	}
	m.holds("old", "original/d/e/a.jpg")
	testenv.Eventually(t, func() error {
		if now := m.fs.Stats().Watched; now > before {
			return fmt.Errorf("%d directories are watched, at first there were %d", now, before)
		}
		return nil
	})
	testenv.Must(t, os.RemoveAll(filepath.Join(m.src, "d")))
	m.holds(gone, "original/d/e/a.jpg")
	testenv.Eventually(t, func() error {
		if now := m.fs.Stats().Watched; now != before-2 {
			return fmt.Errorf("%d directories are watched after two of %d were deleted", now, before)
		}
		return nil
	})
}

// TestLostEvents: when the system lost events, everything is looked at.
func TestLostEvents(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	m.write("d/a.jpg", "old")
	m.write("d/gone.jpg", "old")
	m.write("sub/e/a.jpg", "old")
	m.write("link.to/x", "old")
	m.link("l.jpg", "link.to/x")
	for _, name := range []string{"d/a.jpg", "d/gone.jpg", "sub/e/a.jpg", "l.jpg"} {
		m.holds("old", "original", name)
	}
	// Nothing is heard from here on.
	l := m.fs.live
	l.mu.Lock()
	dirs, links := l.dirs, l.links.dirs
	l.dirs, l.links.dirs = map[source.WatchID][]*dir{}, map[source.WatchID]bool{}
	l.mu.Unlock()
	m.write("d/a.jpg", "new")
	testenv.Must(t, os.Remove(filepath.Join(m.src, "d/gone.jpg")))
	m.write("d/a.png", "png") // a.bmp becomes a.jpg.bmp
	testenv.Must(t, os.Rename(filepath.Join(m.src, "sub"), filepath.Join(m.src, "away")))
	m.write("sub/e/a.jpg", "another")
	m.write("link.to/x", "new")
	// Events are handled in the order in which they come.
	m.write("last", "")
	testenv.Eventually(t, func() error {
		l.pendingMu.Lock()
		defer l.pendingMu.Unlock()
		if len(l.pending.dirs) > 0 {
			return errors.New("events are pending")
		}
		return nil
	})
	m.want("old", "original/d/a.jpg") // or this would test nothing
	l.mu.Lock()
	l.dirs, l.links.dirs = dirs, links
	l.mu.Unlock()
	l.add([]source.Event{{Change: source.Lost}})
	m.holds("new", "original/d/a.jpg")
	m.holds(gone, "original/d/gone.jpg")
	m.holds("another", "original/sub/e/a.jpg")
	m.holds("new", "original/l.jpg")
	m.holds(string(derived("bmp", []byte("new"))), "bmp/d/a.jpg.bmp")
	if !strings.Contains(m.log.String(), "lost events") {
		t.Error("the log says nothing")
	}
}

// TestWhatIsNotWatchedExpires: labels, in case they change by ways that nobody is told
// of, and directories that cannot be watched.
func TestWhatIsNotWatchedExpires(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	outside := t.TempDir()
	m.write("d/a.jpg", "old")
	m.write("d/l.csv", "old")
	for _, name := range []string{"d/a.jpg", "d/l.csv"} {
		testenv.Must(t, os.Link(filepath.Join(m.src, name), filepath.Join(outside, filepath.Base(name))))
		m.holds("old", "original", name)
	}
	testenv.Must(t, os.WriteFile(filepath.Join(outside, "l.csv"), []byte("new"), 0o644))
	testenv.Must(t, os.WriteFile(filepath.Join(outside, "a.jpg"), []byte("new"), 0o644))
	m.holds("new", "original/d/l.csv")
	// As the manual says of other hard links: while the page cache has it.
	if b, err := os.ReadFile(m.path("original/d/a.jpg")); !errors.Is(err, unix.ESTALE) && (err != nil || string(b) != "old") {
		t.Errorf("another hard link: %q, %v", b, err)
	}

	// Links into /proc stand for what lies on no local file system.
	m.link("far/v.jpg", "/proc/self/cmdline")
	m.link("far/w.jpg", "/proc/self/comm")
	for range 2 {
		_, _ = os.Stat(m.path("original/far/v.jpg"))
		_, _ = os.Stat(m.path("original/far/w.jpg"))
	}
	if n := strings.Count(m.log.String(), "cannot be watched"); n != 1 {
		t.Errorf("the log says %d times that a directory cannot be watched:\n%s", n, m.log)
	}
	if m.fs.Stats().Unwatched == 0 {
		t.Error("Stats counts nothing that is not watched")
	}
}

// TestMappedWritesShowWhenTheFileIsClosed: nobody is told of the writes themselves.
func TestMappedWritesShowWhenTheFileIsClosed(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	m.write("a.jpg", "old")
	m.holds("old", "original/a.jpg")
	f, err := os.OpenFile(filepath.Join(m.src, "a.jpg"), os.O_RDWR, 0)
	testenv.Must(t, err)
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	testenv.Must(t, err)
	copy(b, "new")
	testenv.Must(t, unix.Munmap(b))
	testenv.Must(t, f.Close())
	m.holds("new", "original/a.jpg")
}

// TestBursts: many files change at once, in one directory and in many, while others
// read. Nobody sees a mixture, and everybody ends with what is there.
func TestBursts(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	const dirs, files = 8, 25
	name := func(i, k int) string { return fmt.Sprintf("d%d/%d.jpg", i, k) }
	all := func(do func(name string)) {
		for i := range dirs {
			for k := range files {
				do(name(i, k))
			}
		}
	}
	all(func(name string) { m.write(name, "0") })
	all(func(name string) { m.want("0", "original", name) })
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				all(func(name string) {
					f, err := os.Open(m.path("original", name))
					if err != nil {
						if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) {
							t.Error(err)
						}
						return
					}
					defer f.Close()
					data, err := io.ReadAll(f)
					if err == nil && len(data) == 0 || err != nil && !errors.Is(err, unix.ESTALE) {
						t.Errorf("%s: %q, %v", name, data, err)
					}
				})
			}
		})
	}
	for round := 1; round <= 3; round++ {
		all(func(name string) { m.replace(name, fmt.Sprint(round)) })
		testenv.Must(t, os.RemoveAll(filepath.Join(m.src, "d0")))
		for k := range files {
			m.replace(name(0, k), fmt.Sprint(round))
		}
	}
	stop.Store(true)
	readers.Wait()
	all(func(name string) { m.holds("3", "original", name) })
	all(func(name string) { testenv.Must(t, os.Remove(filepath.Join(m.src, name))) })
	all(func(name string) { m.holds(gone, "original", name) })
}

// TestManyNamesOfOneDirectory: what there is no room to remember is looked for.
func TestManyNamesOfOneDirectory(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	m.write("d/a.jpg", "old")
	m.holds("old", "original/d/a.jpg")
	l := m.fs.live
	l.pendingMu.Lock()
	l.pending.names = maxPending
	l.pendingMu.Unlock()
	m.write("d/a.jpg", "new")
	m.holds("new", "original/d/a.jpg")
}

// TestNoRequestsOfWhatIsWatched: what the kernel keeps costs nothing.
func TestNoRequestsOfWhatIsWatched(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	m.write("d/a.jpg", "old")
	m.want("old", "original/d/a.jpg")
	before := m.fs.Stats().Views[0]
	for range 100 {
		m.want("old", "original/d/a.jpg")
	}
	if after := m.fs.Stats().Views[0]; after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
}

// TestOpensAreFresh: who opens a file that was replaced gets the new one, each time,
// where opens are checked.
func TestOpensAreFresh(t *testing.T) {
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		backing := t.TempDir()
		src := remote(t, backing)
		t.Run(mode.String(), func(t *testing.T) {
			m := mountAt(t, src, t.TempDir(), mode, freshness(Checked))
			defer m.end()
			m.src = backing
			for version := range 100 {
				content := strings.Repeat(fmt.Sprint(version), 5000)
				m.replace("a.jpg", content)
				m.want(content, "original/a.jpg")
				m.want(string(derived("bmp", []byte(content))), "bmp/a.bmp")
			}
		})
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
		got, err := os.ReadFile(m.path("bmp/d/b.bmp")) // what was made for the lookup may still be in memory
		if string(got) != bmp(noise(50_000, 3)) && !errors.Is(err, unix.ESTALE) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("reading what was deleted: %d bytes, %v", len(got), err)
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
