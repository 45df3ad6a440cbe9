package fs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

func freshness(f Freshness) func(*Options) { return func(o *Options) { o.Freshness = f } }

// remote shows a directory by a FUSE file system of its own, as a network file system
// shows what lies on a server: who changes the directory does so behind its back.
func remote(t testing.TB, dir string) string {
	t.Helper()
	testenv.Mounts(t)
	root, err := gofs.NewLoopbackRoot(dir)
	testenv.Must(t, err)
	mnt := t.TempDir()
	none := time.Duration(0)
	o := &gofs.Options{EntryTimeout: &none, AttrTimeout: &none}
	// fusermount would be a child, and a child closes descriptors before it begins. Where one
	// is a file of this process's own mounts, it waits for an answer, and Go for the child.
	o.DirectMount = true
	server, err := gofs.Mount(mnt, root, o)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, server.Unmount()) })
	return mnt
}

// An operation changes a directory of the dataset that holds the files of filled.
type operation struct {
	name string
	do   func(t *testing.T, dir string)
	// The files that a path leads to afterwards, by what they hold; gone is none.
	want map[string]string
	// attributes are checked by stat(2).
	attributes func(t *testing.T, st unix.Stat_t) bool
}

const gone = "(there is no such file)"

// filled is what lies in the directory of each operation: a sample, another one that is
// opened and not read, a label, and the same in a directory. All others are read before,
// in each view.
func filled() map[string]string {
	return map[string]string{
		"a.jpg": "old sample", unread: "old sample", "l.csv": "old label", "sub/a.jpg": "old sample", "sub/l.csv": "old label",
		"empty/": "",
	}
}

const unread = "unread.jpg"

// each makes an operation of one of a file: of the samples and of the label.
func each(do func(file string) error) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, name := range []string{"a.jpg", unread, "l.csv"} {
			testenv.Must(t, do(filepath.Join(dir, name)))
		}
	}
}

func write(file, content string, flags int) error {
	f, err := os.OpenFile(file, os.O_WRONLY|flags, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(content)
	return err
}

var old2010 = time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)

func operations() []operation {
	is := func(content string) map[string]string {
		return map[string]string{"a.jpg": content + " sample", unread: content + " sample", "l.csv": content + " label"}
	}
	fill := func(t *testing.T, dir, content string) {
		t.Helper()
		testenv.Must(t, os.MkdirAll(dir, 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.jpg"), []byte(content+" sample"), 0o644))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, unread), []byte(content+" sample"), 0o644))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "l.csv"), []byte(content+" label"), 0o644))
	}
	return []operation{
		{name: "overwrite in place", do: each(func(f string) error { return write(f, "new", 0) }), want: is("new")},
		{name: "append", do: each(func(f string) error { return write(f, " and more", os.O_APPEND) }),
			want: map[string]string{"a.jpg": "old sample and more", unread: "old sample and more", "l.csv": "old label and more"}},
		{name: "truncate", do: each(func(f string) error { return os.Truncate(f, 3) }),
			want: map[string]string{"a.jpg": "old", unread: "old", "l.csv": "old"}},
		{name: "replace by rename", do: func(t *testing.T, dir string) {
			fill(t, dir+".tmp", "new")
			for _, name := range []string{"a.jpg", unread, "l.csv"} {
				testenv.Must(t, os.Rename(filepath.Join(dir+".tmp", name), filepath.Join(dir, name)))
			}
		}, want: is("new")},
		{name: "delete", do: each(os.Remove), want: map[string]string{"a.jpg": gone, unread: gone, "l.csv": gone}},
		{name: "create", do: func(t *testing.T, dir string) {
			testenv.Must(t, os.WriteFile(filepath.Join(dir, "b.jpg"), []byte("new"), 0o644))
			testenv.Must(t, os.WriteFile(filepath.Join(dir, "b.csv"), []byte("new"), 0o644))
		}, want: map[string]string{"b.jpg": "new", "b.csv": "new", "a.jpg": "old sample", "l.csv": "old label"}},
		{name: "create a file of the same stem", do: func(t *testing.T, dir string) {
			testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.png"), []byte("new"), 0o644))
		}, want: map[string]string{"a.jpg.bmp": "old sample", "a.png.bmp": "new", "a.bmp": gone, "l.csv": "old label"}},
		{name: "rename", do: func(t *testing.T, dir string) {
			testenv.Must(t, os.Rename(filepath.Join(dir, "a.jpg"), filepath.Join(dir, "b.jpg")))
			testenv.Must(t, os.Rename(filepath.Join(dir, "l.csv"), filepath.Join(dir, "m.csv")))
		}, want: map[string]string{"a.jpg": gone, "b.jpg": "old sample", "l.csv": gone, "m.csv": "old label"}},
		{name: "touch", do: each(func(f string) error { return os.Chtimes(f, old2010, old2010) }), want: is("old"),
			attributes: func(t *testing.T, st unix.Stat_t) bool { return st.Mtim.Sec == old2010.Unix() }},
		{name: "chmod", do: each(func(f string) error { return os.Chmod(f, 0o640) }), want: is("old"),
			attributes: func(t *testing.T, st unix.Stat_t) bool { return st.Mode&0o777 == 0o440 }},
		{name: "make a directory", do: func(t *testing.T, dir string) { fill(t, filepath.Join(dir, "made"), "new") },
			want: map[string]string{"made/a.jpg": "new sample", "made/l.csv": "new label"}},
		{name: "delete an empty directory", do: func(t *testing.T, dir string) { testenv.Must(t, os.Remove(filepath.Join(dir, "empty"))) },
			want: map[string]string{"empty": gone}},
		{name: "delete a directory", do: func(t *testing.T, dir string) { testenv.Must(t, os.RemoveAll(filepath.Join(dir, "sub"))) },
			want: map[string]string{"sub/a.jpg": gone, "sub/l.csv": gone, "sub": gone}},
		{name: "rename a directory", do: func(t *testing.T, dir string) {
			testenv.Must(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "moved")))
		}, want: map[string]string{"sub/a.jpg": gone, "moved/a.jpg": "old sample", "sub": gone}},
		{name: "replace a directory", do: func(t *testing.T, dir string) {
			fill(t, dir+".tmp2", "new")
			testenv.Must(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "away")))
			testenv.Must(t, os.Rename(dir+".tmp2", filepath.Join(dir, "sub")))
		}, want: map[string]string{"sub/a.jpg": "new sample", "sub/l.csv": "new label"}},
	}
}

// TestContract is the table of docs/reference.md: what who opens a file sees after
// each operation in the dataset, and what who has it open does.
func TestContract(t *testing.T) {
	for _, mode := range []struct {
		name  string
		cache CacheMode
		fresh Freshness
	}{
		{"watched", PageCache, Watched}, {"watched, --cache daemon", DaemonCache, Watched},
		{"checked", PageCache, Checked}, {"checked, --cache daemon", DaemonCache, Checked},
		{"immutable", PageCache, Immutable},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			backing := t.TempDir()
			ops := operations()
			for i := range ops {
				for name, content := range filled() {
					path := filepath.Join(backing, fmt.Sprint(i), name)
					testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
					if strings.HasSuffix(name, "/") {
						testenv.Must(t, os.MkdirAll(path, 0o755))
						continue
					}
					testenv.Must(t, os.WriteFile(path, []byte(content), 0o644))
				}
			}
			src := backing
			if mode.fresh != Watched {
				src = remote(t, backing)
			}
			m := mountAt(t, src, t.TempDir(), mode.cache, freshness(mode.fresh))
			t.Cleanup(m.end)
			c := contract{m: m, backing: backing}
			c.open(t, ops)
			for i, op := range ops {
				op.do(t, filepath.Join(backing, fmt.Sprint(i)))
			}
			for i, op := range ops {
				t.Run(op.name, func(t *testing.T) { c.check(t, i, op, mode.fresh) })
			}
			if log := m.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

type contract struct {
	m       *mounted
	backing string
	files   map[string]*os.File // by path below the mount
}

// contractViews are one that shows samples as they are, one that changes them, and one
// that shows the files of that under other names.
var contractViews = []string{"original", "bmp", "bmp-own"}

// shown is what a view shows of a file that holds content.
func shown(view, name, content string) string {
	if strings.HasSuffix(name, ".csv") {
		return content
	}
	return string(derived(strings.TrimSuffix(view, "-own"), []byte(content)))
}

// open reads everything, so that the kernel keeps it, and leaves it open.
func (c *contract) open(t *testing.T, ops []operation) {
	c.files = map[string]*os.File{}
	for i := range ops {
		for _, view := range contractViews {
			for name, content := range filled() {
				path := filepath.Join(view, fmt.Sprint(i), name)
				if strings.HasSuffix(name, "/") {
					c.m.names(path)
					continue
				}
				for _, dir := range []string{"", "sub"} {
					c.m.names(view, fmt.Sprint(i), dir)
				}
				f, err := os.Open(c.m.path(path))
				testenv.Must(t, err)
				t.Cleanup(func() { f.Close() })
				c.files[path] = f
				if name == unread {
					continue
				}
				data, err := io.ReadAll(f)
				if want := shown(view, name, content); err != nil || string(data) != want {
					t.Fatalf("%s holds %q before anything changed, %v", path, data, err)
				}
				lockPages(t, f, len(data))
			}
		}
	}
}

// lockPages makes the kernel keep the pages of a file that was read. Without it they can be
// reclaimed at any moment, even where memory is free, and then the kernel asks for them
// again. A notice of the daemon still drops them.
func lockPages(t *testing.T, f *os.File, size int) {
	t.Helper()
	pages, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, unix.Munmap(pages)) })
	testenv.Must(t, unix.Mlock(pages))
}

// asked is how often the kernel asked for names and bytes.
func (c *contract) asked() (n int64) {
	for _, v := range c.m.fs.Stats().Views {
		n += v.Lookups + v.Reads + v.Errors
	}
	return n
}

func (c *contract) check(t *testing.T, i int, op operation, fresh Freshness) {
	for _, view := range contractViews {
		for _, name := range sortedKeys(op.want) {
			want := op.want[name]
			if view != "bmp" && (name == "a.bmp" || strings.HasSuffix(name, ".jpg.bmp") || strings.HasSuffix(name, ".png.bmp")) {
				continue // a name of the other view
			}
			path := filepath.Join(view, fmt.Sprint(i), name)
			see := func() error { return c.sees(view, path, name, want) }
			switch {
			case fresh == Immutable && filled()[name] != "" && name != unread:
				// What was read before is kept, whatever happened, and costs no request.
				asked := c.asked()
				if err := c.sees(view, path, name, filled()[name]); err != nil {
					t.Errorf("%s: %v", view, err)
				}
				if n := c.asked() - asked; n > 0 {
					t.Errorf("the kernel asked %d times for %s, which it had read", n, path)
				}
			case fresh == Immutable:
			case fresh == Checked && name != "sub" && name != "empty" && name != "a.bmp":
				// Whoever opens a file sees what is there, at once.
				if err := see(); err != nil {
					t.Errorf("%s: %v", view, err)
				}
			default:
				// within milliseconds where it is watched, within a second elsewhere
				testenv.Eventually(t, see)
			}
			if op.attributes != nil && fresh != Immutable {
				testenv.Eventually(t, func() error {
					var st unix.Stat_t
					if err := unix.Stat(c.m.path(path), &st); err != nil || !op.attributes(t, st) {
						return fmt.Errorf("%s: attributes %+v, %w", path, st, err)
					}
					return nil
				})
			}
			if f := c.files[path]; f != nil {
				c.stillOpen(t, view, name, f)
			}
		}
		// Listing a directory always shows what is there.
		if fresh != Immutable {
			listed := c.m.names(view, fmt.Sprint(i))
			for name, want := range op.want {
				if !strings.Contains(name, "/") && view != "bmp" && !strings.HasSuffix(name, ".bmp") &&
					slices.Contains(strings.Fields(listed), name) != (want != gone) {
					t.Errorf("%s lists %q after %s", view, listed, op.name)
				}
			}
		}
	}
}

// sees opens a file anew and compares it with what it should hold.
func (c *contract) sees(view, path, name, want string) error {
	data, err := os.ReadFile(c.m.path(path))
	switch {
	case want == gone && errors.Is(err, unix.ENOENT):
		return nil
	case want == gone || err != nil:
		return fmt.Errorf("%s holds %q, %w", path, data, err)
	case string(data) != shown(view, name, want):
		return fmt.Errorf("%s holds %q and not %q", path, data, shown(view, name, want))
	}
	st, err := os.Stat(c.m.path(path))
	if err != nil || st.Size() != int64(len(data)) {
		return fmt.Errorf("%s: %d bytes were read, stat says %v, %w", path, len(data), st, err)
	}
	return nil
}

// stillOpen: who has a file open sees what it was, or ESTALE.
func (c *contract) stillOpen(t *testing.T, view, name string, f *os.File) {
	want := shown(view, name, filled()[name])
	buf := make([]byte, 1000)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ESTALE) || !bytes.HasPrefix([]byte(want), buf[:n]) {
		t.Errorf("%s/%s, open before, holds %q, %v", view, name, buf[:n], err)
	}
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
