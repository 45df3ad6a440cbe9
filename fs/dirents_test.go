package fs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// dirent is what getdents returns.
type dirent struct {
	ino  uint64
	off  int64
	kind byte
	name string
}

// getdents reads some entries of an open directory.
func getdents(t testing.TB, fd, size int) (list []dirent) {
	t.Helper()
	buf := make([]byte, size)
	n, err := unix.Getdents(fd, buf)
	testenv.Must(t, err)
	for buf = buf[:n]; len(buf) > 0; {
		length := binary.NativeEndian.Uint16(buf[16:])
		name, _, _ := bytes.Cut(buf[19:length], []byte{0})
		list = append(list, dirent{
			binary.NativeEndian.Uint64(buf), int64(binary.NativeEndian.Uint64(buf[8:])), buf[18], string(name),
		})
		buf = buf[length:]
	}
	return list
}

func openDir(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	testenv.Must(t, err)
	return fd
}

// dirents lists a directory without "." and "..".
func dirents(t testing.TB, path string) (list []dirent) {
	t.Helper()
	fd := openDir(t, path)
	defer unix.Close(fd)
	for {
		some := getdents(t, fd, 4096)
		if len(some) == 0 {
			return list
		}
		for _, e := range some {
			if e.name != "." && e.name != ".." {
				list = append(list, e)
			}
		}
	}
}

func TestListingTypes(t *testing.T) {
	m := mount(t, PageCache)
	testenv.Must(t, m.fs.SetCurrent("bmp"))
	m.write("d/a.jpg", "x")
	m.write("b.txt", "x")
	for dir, want := range map[string]map[string]byte{
		"":         {"original": unix.DT_DIR, "scan5": unix.DT_DIR, "bmp": unix.DT_DIR, "current": unix.DT_LNK},
		"original": {"d": unix.DT_DIR, "b.txt": unix.DT_REG},
		".pipefs":  {"lists": unix.DT_DIR},
	} {
		got := dirents(t, m.path(dir))
		for _, e := range got {
			if want[e.name] != e.kind {
				t.Errorf("%q/%s has type %d", dir, e.name, e.kind)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%q has %v", dir, got)
		}
	}
	if s := m.p.Stats(); s.Produced != 0 || s.Opened != 0 {
		t.Error("listing produced something")
	}
}

// TestOffsets: an open directory shows what it was opened on, and its offsets
// stay valid, while it is listed again and again.
func TestOffsets(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		const n = 500
		for i := range n {
			m.write(fmt.Sprintf("d/%04d.jpg", i), "x")
		}
		fd := openDir(t, m.path("bmp/d"))
		defer unix.Close(fd)
		seen := map[string]int64{}
		var all []dirent
		for round := 0; ; round++ {
			some := getdents(t, fd, 300)
			if len(some) == 0 {
				break
			}
			for _, e := range some {
				if _, twice := seen[e.name]; twice {
					t.Errorf("%s is listed twice", e.name)
				}
				seen[e.name] = e.off
			}
			all = append(all, some...)
			if round < 10 {
				// in front of the cursor and behind it
				m.write(fmt.Sprintf("d/%04d-new.jpg", round), "x")
				os.Remove(filepath.Join(m.src, fmt.Sprintf("d/%04d.jpg", n-1-round)))
				m.names("bmp/d")
				m.told()
			}
		}
		if len(all) != n+2 {
			t.Errorf("%d entries, want %d", len(all), n+2)
		}
		// seekdir, in any order
		for i := len(all) - 2; i > 0; i -= 7 {
			if _, err := unix.Seek(fd, all[i-1].off, 0); err != nil {
				t.Fatal(err)
			}
			if got := getdents(t, fd, 300)[0]; got != all[i] {
				t.Fatalf("at offset %d is %v, was %v", all[i-1].off, got, all[i])
			}
		}
		// rewinddir shows the present
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			t.Fatal(err)
		}
		present := map[string]bool{}
		for some := getdents(t, fd, 4096); len(some) > 0; some = getdents(t, fd, 4096) {
			for _, e := range some {
				present[e.name] = true
			}
		}
		if len(present) != n+2 || !present["0009-new.bmp"] || present["0499.bmp"] {
			t.Errorf("%d entries after rewinding, want %d", len(present), n+2)
		}
		if got := len(dirents(t, m.path("bmp/d"))); got != n {
			t.Errorf("%d entries now, want %d", got, n)
		}
	})
}

// TestListingsAreCached: a directory that did not change is listed by the kernel.
func TestListingsAreCached(t *testing.T) {
	m := mount(t, PageCache)
	for i := range 100 {
		m.write(fmt.Sprintf("d/%d.txt", i), "x")
	}
	for range 3 {
		if got := len(dirents(t, m.path("original/d"))); got != 100 {
			t.Fatalf("%d entries", got)
		}
	}
	m.write("d/new.txt", "x")
	if got := len(dirents(t, m.path("original/d"))); got != 101 {
		t.Errorf("%d entries after one was added", got)
	}
	m.told()
	want, _ := os.Stat(filepath.Join(m.src, "d"))
	if got, err := os.Stat(m.path("original/d")); err != nil || !got.ModTime().Equal(want.ModTime()) {
		t.Errorf("mtime %v, %v, want %v", got.ModTime(), err, want.ModTime())
	}
	os.RemoveAll(filepath.Join(m.src, "d"))
	if _, err := os.ReadDir(m.path("original/d")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a directory that went: %v", err)
	}
}

// TestListingWithAttributes: what is known comes with the listing, and nothing
// else is looked at for it.
func TestListingWithAttributes(t *testing.T) {
	m := mount(t, PageCache)
	for _, name := range []string{"d/a.jpg", "d/b.jpg", "d/c.txt", "d/known/x.jpg", "d/unknown/x.jpg"} {
		m.write(name, "hello")
	}
	for _, name := range []string{"a.jpg", "c.txt", "known"} {
		for _, view := range []string{"original", "bmp"} {
			if _, err := os.Stat(m.path(view, "d", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for view, want := range map[string]string{
		"original": "a.jpg:5 c.txt:5 known",
		"bmp":      "c.txt:5 known", // the size of a.bmp is not kept
	} {
		var opened fuse.OpenOut
		in := fuse.OpenIn{}
		in.NodeId = inode(t, m.path(view, "d"))
		if status := m.fs.OpenDir(nil, &in, &opened); status != fuse.OK {
			t.Fatal(status)
		}
		read := fuse.ReadIn{InHeader: in.InHeader, Fh: opened.Fh}
		list := fuse.NewDirEntryList(make([]byte, 1<<16), 0)
		if status := m.fs.ReadDirPlus(nil, &read, list); status != fuse.OK {
			t.Fatal(status)
		}
		m.fs.ReleaseDir(&fuse.ReleaseIn{InHeader: in.InHeader, Fh: opened.Fh})
		names, entries, err := fuse.ParseDirLookupEntries(list.Bytes())
		testenv.Must(t, err)
		var got []string
		for i, e := range entries {
			switch {
			case e.NodeId != 0 && e.IsDir():
				got = append(got, names[i].Name)
			case e.NodeId != 0:
				got = append(got, fmt.Sprintf("%s:%d", names[i].Name, e.Size))
			}
			if e.NodeId != 0 && e.NodeId != names[i].Ino {
				t.Errorf("%s: node %x, listed as inode %x", names[i].Name, e.NodeId, names[i].Ino)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s comes with attributes of %q, want %q", view, s, want)
		}
	}
}

// TestCachedListingOfAnother lists the beginning of a directory from the kernel's cache, which
// another reader has filled with a newer listing than that of this open directory, and the rest
// when the cache was dropped: no name comes twice, and none that is there is left out.
func TestCachedListingOfAnother(t *testing.T) {
	m := mount(t, PageCache, freshness(Watched))
	for i := range 10 {
		m.write(fmt.Sprintf("d/%d.jpg", i), "x")
	}
	remove := func(names ...string) {
		for _, name := range names {
			testenv.Must(t, os.Remove(filepath.Join(m.src, "d", name)))
		}
		testenv.Eventually(t, func() error {
			if _, err := os.Stat(m.path("original/d", names[0])); err == nil {
				return errors.New("it is still there")
			}
			return nil
		})
		m.told()
	}
	list := func(fd, size int) (names []string) {
		room := make([]byte, size)
		n, err := unix.ReadDirent(fd, room)
		testenv.Must(t, err)
		_, _, names = unix.ParseDirent(room[:n], -1, nil)
		return names
	}
	fd, err := unix.Open(m.path("original/d"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	testenv.Must(t, err)
	defer unix.Close(fd)
	remove("0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg")
	if got := m.names("original/d"); got != "5.jpg 6.jpg 7.jpg 8.jpg 9.jpg" {
		t.Error(got)
	}
	got := list(fd, 4*32) // ".", ".." and two more
	remove("9.jpg")
	for more := list(fd, 4096); len(more) > 0; more = list(fd, 4096) {
		got = append(got, more...)
	}
	if s := strings.Join(got, " "); s != "5.jpg 6.jpg 7.jpg 8.jpg 9.jpg" && s != "5.jpg 6.jpg 7.jpg 8.jpg" {
		t.Errorf("listed %s", s)
	}
}
