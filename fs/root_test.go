package fs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestCurrent(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("d/a.jpg", noise(100_000, 1))
		if _, err := os.Lstat(m.path("current")); !errors.Is(err, unix.ENOENT) {
			t.Errorf("before it was set: %v", err)
		}
		show := func(view string) string { return string(derived(view, []byte(noise(100_000, 1)))) }
		var open []*os.File
		var before uint64
		for _, view := range []string{"scan5", "scan1", "resize8-npy", "original", "scan5"} {
			testenv.Must(t, m.fs.SetCurrent(view))
			for range 2 { // the second is cached
				if to, err := os.Readlink(m.path("current")); err != nil || to != view {
					t.Errorf("leads to %q, %v, want %s", to, err, view)
				}
				if real, err := filepath.EvalSymlinks(m.path("current/d/a.jpg")); err != nil || real != m.path(view, "d/a.jpg") {
					t.Errorf("realpath %q, %v", real, err)
				}
			}
			var st unix.Stat_t
			if err := unix.Lstat(m.path("current"), &st); err != nil || st.Ino == before || st.Size != int64(len(view)) {
				t.Errorf("inode %d, before %d, size %d, %v", st.Ino, before, st.Size, err)
			}
			before = st.Ino
			m.want(show(view), "current/d/a.jpg")
			f, err := os.Open(m.path("current/d/a.jpg"))
			testenv.Must(t, err)
			open = append(open, f)
		}
		for i, view := range []string{"scan5", "scan1", "resize8-npy", "original", "scan5"} {
			got := make([]byte, len(show(view)))
			if _, err := open[i].ReadAt(got, 0); err != nil || string(got) != show(view) {
				t.Errorf("a file that was opened in %s: %v", view, err)
			}
			open[i].Close()
		}
		if got := m.names(); got != "bmp current original scan5" {
			t.Error(got)
		}
		for _, bad := range []string{"none", "", "bmp-npy", "resize08-npy"} {
			if err := m.fs.SetCurrent(bad); err == nil {
				t.Errorf("leads to %q", bad)
			}
		}
		if err := m.fs.SetLink("auto", "bmp"); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"", ".x", "a/b", "bmp", "original"} {
			if err := m.fs.SetLink(bad, "bmp"); err == nil {
				t.Errorf("a link named %q", bad)
			}
		}
		if got := fmt.Sprint(m.fs.Links()); got != "map[auto:bmp current:scan5]" {
			t.Error(got)
		}
	})
}

// TestCurrentWhileReading moves the link under readers.
func TestCurrentWhileReading(t *testing.T) {
	m := mount(t, PageCache)
	testenv.Must(t, m.fs.SetCurrent("scan1"))
	m.write("a.jpg", "hello")
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := range 300 {
			if err := m.fs.SetCurrent(fmt.Sprintf("scan%d", i%10+1)); err != nil {
				t.Error(err)
			}
		}
	}()
	for moving := true; moving; {
		select {
		case <-done:
			moving = false
		default:
		}
		got, err := os.ReadFile(m.path("current/a.jpg"))
		if err != nil || !strings.HasPrefix(string(got), "scan") {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if to, _ := os.Readlink(m.path("current")); to != "scan10" {
		t.Errorf("leads to %s", to)
	}
}

func TestSpecialFiles(t *testing.T) {
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		var version atomic.Int64
		m := mount(t, mode, func(o *Options) {
			o.Files = map[string]func() ([]byte, error){
				"manifest":     func() ([]byte, error) { return fmt.Appendf(nil, `{"version": %d}`, version.Load()), nil },
				"/README.txt":  func() ([]byte, error) { return []byte("read me"), nil },
				"gpu/program":  func() ([]byte, error) { return []byte("ptx"), nil },
				"gpu/module":   func() ([]byte, error) { return []byte("python"), nil },
				"other/module": func() ([]byte, error) { return nil, nil },
			}
			o.Control = "/run/pipefs.sock"
		})
		m.write("c/z.jpg", "x")
		m.write("a b.png", "x")
		m.write("label.txt", "x")
		m.write("c/a.jpg", "x")
		m.write("c/a.png", "x")
		if got := m.names(); strings.Contains(got, ".pipefs") {
			t.Errorf("listed: %s", got)
		}
		if got := m.names(); !strings.Contains(got, "README.txt") || strings.Contains(m.names("bmp"), "README") {
			t.Errorf("listed: %s", got)
		}
		m.want("read me", "README.txt")
		if _, err := os.Stat(m.path(".pipefs/README.txt")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf(".pipefs/README.txt: %v", err)
		}
		if err := os.WriteFile(m.path("README.txt"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("written: %v", err)
		}
		if got := m.names(".pipefs"); got != "control gpu lists manifest other" {
			t.Error(got)
		}
		if got := m.names(".pipefs/lists"); got != "bmp.txt original.txt scan5.txt" {
			t.Error(got)
		}
		if to, err := os.Readlink(m.path(".pipefs/control")); err != nil || to != "/run/pipefs.sock" {
			t.Errorf("control: %q, %v", to, err)
		}
		if got := m.names(".pipefs/gpu"); got != "module program" {
			t.Error(got)
		}
		m.want("ptx", ".pipefs/gpu/program")
		m.want("python", ".pipefs/gpu/module")
		m.want("", ".pipefs/other/module")
		for _, name := range []string{".pipefs/program", ".pipefs/gpu/manifest", ".pipefs/gpu/gpu", ".pipefs/lists/manifest"} {
			if _, err := os.Stat(m.path(name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		m.want(`{"version": 0}`, ".pipefs/manifest")
		f, err := os.Open(m.path(".pipefs/manifest"))
		testenv.Must(t, err)
		version.Store(1)
		m.want(`{"version": 1}`, ".pipefs/manifest")
		buf := make([]byte, 20)
		if n, _ := f.ReadAt(buf, 0); string(buf[:n]) != `{"version": 0}` {
			t.Errorf("an open manifest changed: %q", buf[:n])
		}
		f.Close()
		m.want("a b.bmp\nc/a.jpg.bmp\nc/a.png.bmp\nc/z.bmp\n", ".pipefs/lists/bmp.txt")
		m.want("a b.png\nc/a.jpg\nc/a.png\nc/z.jpg\n", ".pipefs/lists/original.txt")
		m.want("a b.npy\nc/a.jpg.npy\nc/a.png.npy\nc/z.npy\n", ".pipefs/lists/resize8-npy.txt")
		list, _ := m.read(".pipefs/lists/bmp.txt")
		for line := range strings.Lines(list) {
			if _, err := os.Stat(m.path("bmp", strings.TrimSpace(line))); err != nil {
				t.Error(err)
			}
		}
		for _, none := range []string{".pipefs/none", ".pipefs/lists/none.txt", ".pipefs/lists/bmp", ".pipefs/lists/bmp-npy.txt"} {
			if _, err := os.Stat(m.path(none)); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s: %v", none, err)
			}
		}
		os.Remove(filepath.Join(m.src, "c/a.png"))
		m.holds("a b.bmp\nc/a.bmp\nc/z.bmp\n", ".pipefs/lists/bmp.txt") // the tree is walked again after a second
	}
}

// TestEachDir: each directory that has samples is found once, wherever it lies.
func TestEachDir(t *testing.T) {
	m := mount(t, PageCache)
	want := map[string]int{}
	for i := range 3*dirsAtOnce - 5 {
		d := fmt.Sprintf("%02d", i)
		m.write(d+"/a.jpg", "x")
		m.write(d+"/none/notes.txt", "x")
		m.write(d+"/below/it/b.jpg", "x")
		want[d], want[d+"/below/it"] = 1, 1
	}
	got := map[string]int{}
	testenv.Must(t, m.fs.eachDir(m.fs.tree.dir(rootID), func(d *dir) { got[m.fs.tree.path(d.id)]++ }))
	if !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestListsAreBounded: what is dropped is made again, if it still is the same.
func TestListsAreBounded(t *testing.T) {
	m := mount(t, DaemonCache, func(o *Options) { o.ListBytes = 100 })
	for i := range 10 {
		m.write(fmt.Sprintf("%d-is-a-sample.jpg", i), "x")
	}
	open := map[string]*os.File{}
	for i := range 5 {
		view := fmt.Sprintf("scan%d", i+1)
		f, err := os.Open(m.path(".pipefs/lists", view+".txt"))
		testenv.Must(t, err)
		defer f.Close()
		open[view] = f
	}
	r := m.fs.root
	r.mu.Lock()
	held := 0
	for _, node := range r.data.Keys() {
		data, _ := r.data.Get(node)
		held += len(data)
	}
	r.mu.Unlock()
	if held > 200 {
		t.Errorf("%d bytes are held, one list has 180", held)
	}
	buf := make([]byte, 1000)
	for view, f := range open {
		if n, err := f.ReadAt(buf, 0); n != 180 {
			t.Errorf("list of %s: %d bytes, %v", view, n, err)
		}
	}
}
