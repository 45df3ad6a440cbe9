package fs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/testenv"
)

func TestNamesInTheMount(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		long := strings.Repeat("l", 251)
		for _, name := range []string{
			"pair/a.jpg", "pair/a.png", "pair/a.bmp", "pair/b.jpg", "with space/é 猫.jpg", "long/" + long + ".jpg",
			"label.json", "-rf/--.jpg", "quo'te\"/\\.jpg", "new\nline/x.jpg",
		} {
			m.write(name, name)
		}
		testenv.Must(t, os.Mkdir(filepath.Join(m.src, "empty"), 0o755))
		if got := m.names("bmp", "pair"); got != "a.bmp a.jpg.bmp a.png.bmp b.bmp" {
			t.Error(got)
		}
		if got := m.names("bmp", "empty"); got != "" {
			t.Error(got)
		}
		bmp := func(name string) string { return string(derived("bmp", []byte(name))) }
		m.want(bmp("pair/a.jpg"), "bmp/pair/a.jpg.bmp")
		m.want(bmp("pair/a.png"), "bmp/pair/a.png.bmp")
		m.want(bmp("pair/b.jpg"), "bmp/pair/b.bmp")
		m.want(bmp("with space/é 猫.jpg"), "bmp/with space/é 猫.bmp")
		m.want(bmp("long/"+long+".jpg"), "bmp/long", long+".bmp")
		m.want(bmp("-rf/--.jpg"), "bmp/-rf/--.bmp")
		m.want(bmp("quo'te\"/\\.jpg"), "bmp", "quo'te\"/\\.bmp")
		m.want(bmp("new\nline/x.jpg"), "bmp", "new\nline/x.bmp")
		m.want("label.json", "bmp/label.json")
		// own names lead to the same files
		for own, listed := range map[string]string{"pair/a.jpg": "pair/a.jpg.bmp", "pair/b.jpg": "pair/b.bmp", "pair/a.bmp": "pair/a.bmp"} {
			if inode(t, m.path("bmp", own)) != inode(t, m.path("bmp", listed)) {
				t.Errorf("%s and %s are not the same file", own, listed)
			}
		}
		// what is unchanged is the file of the view original
		m.write("keep.jpg", "KEEP")
		for _, name := range []string{"label.json", "keep.jpg"} {
			if inode(t, m.path("bmp", name)) != inode(t, m.path("original", name)) {
				t.Errorf("%s is not the same file in both views", name)
			}
		}
		if inode(t, m.path("bmp/pair/b.bmp")) == inode(t, m.path("scan5/pair/b.jpg")) {
			t.Error("files of two views are the same")
		}
		// Views of own names have the names of the dataset and the files of other views. Nothing is stored.
		for _, dir := range []string{"", "pair"} {
			for _, view := range []string{"bmp-own", "stored-bmp"} {
				if got, want := m.names(view, dir), m.names("original", dir); got != want {
					t.Errorf("%s/%s lists %q, want %q", view, dir, got, want)
				}
			}
		}
		opened := m.p.Stats().Opened
		for name, file := range map[string]string{
			"bmp-own/pair/a.jpg": "bmp/pair/a.jpg.bmp", "bmp-own/pair/b.jpg": "bmp/pair/b.bmp", "bmp-own/keep.jpg": "original/keep.jpg",
			"stored-bmp/pair/b.jpg": "original/pair/b.jpg",
		} {
			if inode(t, m.path(name)) != inode(t, m.path(file)) {
				t.Errorf("%s is not the file %s", name, file)
			}
		}
		m.want(bmp("pair/b.jpg"), "bmp-own/pair/b.jpg")
		if n := m.p.Stats().Opened - opened; n != 0 {
			t.Errorf("%d files were opened again under another name", n)
		}
		for _, name := range []string{"bmp/none", "bmp/pair/c.bmp", "bmp/pair/b.jpg.bmp", "bmp/pair/a.bmp.bmp"} {
			if _, err := os.Stat(m.path(name)); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := os.Stat(m.path("bmp", long+long)); !errors.Is(err, unix.ENAMETOOLONG) {
			t.Errorf("a name of 502 bytes: %v", err)
		}
		if _, err := os.Stat(m.path("bmp/label.json/x")); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("below a file: %v", err)
		}
		if entries := m.names("original"); entries != "-rf empty keep.jpg label.json long new\nline pair quo'te\" with space" {
			t.Errorf("%q", entries)
		}
	})
}

func TestViewsInTheMount(t *testing.T) {
	m := mount(t, PageCache, func(o *Options) { o.MaxViews = 6 })
	m.write("a.jpg", "x")
	m.want(string(derived("resize256-npy", []byte("x"))), "resize256-npy/a.npy")
	if got := m.names(); got != "bmp original scan5" {
		t.Errorf("listed: %s", got)
	}
	for _, name := range []string{"resize0256-npy", "bmp-npy", "resize256-bmq", "decode-bmp", "BMP", "", "scan11", ".git"} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(m.path(name)); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: %v", name, err)
		}
		_, _ = os.Stat(m.path(name)) // explained once only
	}
	if log := m.log.String(); strings.Count(log, "did you mean bmp?") != 1 || !strings.Contains(log, "level=INFO") || strings.Contains(log, ".git") {
		t.Errorf("log:\n%s", log)
	}
}

// TestViewsAreForgotten: any number of views can be entered. Of those that nobody uses
// only some are remembered; one that is in use stays what it is.
func TestViewsAreForgotten(t *testing.T) {
	const limit = 8
	m := mount(t, PageCache, func(o *Options) { o.MaxViews = limit })
	m.write("d/a.jpg", "x")
	used, err := os.Open(m.path("resize256-npy/d/a.npy"))
	testenv.Must(t, err)
	defer used.Close()
	dir, err := os.Open(m.path("resize999-npy/d"))
	testenv.Must(t, err)
	defer dir.Close()
	own, err := os.Open(m.path("resize998-npy-own/d"))
	testenv.Must(t, err)
	defer own.Close()
	ino := inode(t, m.path("resize256-npy/d/a.npy"))
	views := func() int { return len(m.fs.Stats().Views) }
	for i := range 30 * limit {
		view, name := fmt.Sprintf("resize%d-bmp", i+1), "/d/a.bmp"
		want := string(derived(view, []byte("x")))
		if i%2 == 0 {
			view, name = view+"-own", "/d/a.jpg"
		}
		m.want(want, view+name)
		m.told() // or a busy machine runs out of views
	}
	// three are listed, three are in use, and one of these needs another
	testenv.EventuallyIs(m.t, "the kernel forgot the views that nobody uses", func() bool { return views() <= limit+7 })
	if n := m.fs.Stats().ForgottenViews; n < 28*limit {
		t.Errorf("%d views were forgotten", n)
	}
	data, err := io.ReadAll(used)
	if want := derived("resize256-npy", []byte("x")); err != nil || !bytes.Equal(data, want) {
		t.Errorf("a file that stayed open: %q, %v", data, err)
	}
	if names, err := dir.Readdirnames(-1); err != nil || len(names) != 1 || names[0] != "a.npy" {
		t.Errorf("a directory that stayed open: %q, %v", names, err)
	}
	// The view that a view of own names has its files of stays with it.
	fd, err := unix.Openat(int(own.Fd()), "a.jpg", unix.O_RDONLY, 0)
	testenv.Must(t, err)
	defer unix.Close(fd)
	got := make([]byte, 100)
	n, err := unix.Read(fd, got)
	if want := derived("resize998-npy", []byte("x")); err != nil || !bytes.Equal(got[:n], want) {
		t.Errorf("a file opened in a directory of own names that stayed open: %q, %v", got[:n], err)
	}
	if now := inode(t, m.path("resize256-npy/d/a.npy")); now != ino {
		t.Errorf("the view of a file that stayed open was made again: inode %d, before %d", now, ino)
	}
	// What changes is told to the views that are left.
	m.write("d/b.jpg", "y")
	m.want(string(derived("resize999-npy", []byte("y"))), "resize999-npy/d/b.npy")
	for i := range 2 * maxExplained {
		m.fs.explain(fmt.Sprintf("none%d", i), errors.New("no view"))
	}
	var told int
	m.fs.specErrors.Range(func(any, any) bool { told++; return true })
	if told > maxExplained {
		t.Errorf("%d names that are no views are remembered", told)
	}
}

func TestAttributes(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("d/a.jpg", "hello")
		m.write("d/b.txt", "text")
		src := filepath.Join(m.src, "d/a.jpg")
		testenv.Must(t, os.Chmod(src, 0o754))
		if os.Getuid() == 0 {
			testenv.Must(t, os.Chown(src, 12, 34))
		}
		var want, got unix.Stat_t
		old := unix.NsecToTimespec(-1_500_000_001) // before 1970
		testenv.Must(t, unix.UtimesNanoAt(unix.AT_FDCWD, src, []unix.Timespec{old, old}, 0))
		testenv.Must(t, unix.Stat(src, &want))
		for _, name := range []string{"original/d/a.jpg", "bmp/d/a.bmp"} {
			testenv.Must(t, unix.Stat(m.path(name), &got))
			if got.Mode != unix.S_IFREG|0o554 || got.Uid != want.Uid || got.Gid != want.Gid || got.Nlink != 1 || got.Blksize != 128<<10 {
				t.Errorf("%s: mode %o, owner %d:%d, links %d, block size %d", name, got.Mode, got.Uid, got.Gid, got.Nlink, got.Blksize)
			}
			if got.Mtim != want.Mtim || got.Ctim != want.Ctim {
				t.Errorf("%s: mtime %v, ctime %v; the source's are %v, %v", name, got.Mtim, got.Ctim, want.Mtim, want.Ctim)
			}
			if got.Blocks != (got.Size+511)/512 {
				t.Errorf("%s: %d bytes in %d blocks", name, got.Size, got.Blocks)
			}
		}
		for _, dir := range []string{"", "bmp", "bmp/d", ".pipefs", ".pipefs/lists"} {
			if err := unix.Stat(m.path(dir), &got); err != nil || got.Mode&0o222 != 0 || got.Mode&unix.S_IFDIR == 0 {
				t.Errorf("%q: mode %o, %v", dir, got.Mode, err)
			}
		}
		// what readdir says is what stat says
		for _, dir := range []string{"original/d", "bmp/d"} {
			for _, e := range dirents(t, m.path(dir)) {
				if e.ino != inode(t, m.path(dir, e.name)) {
					t.Errorf("%s/%s: readdir and stat give different inodes", dir, e.name)
				}
			}
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(m.mnt, &fs); err != nil || fs.Namelen != 255 || fs.Bavail != 0 || fs.Files < 3 {
			t.Errorf("statfs: %+v, %v", fs, err)
		}
	})
}

func TestLinksOfTheDataset(t *testing.T) {
	m := mount(t, PageCache)
	m.write("blobs/x", "hello")
	m.write("real/b.jpg", "b")
	for link, to := range map[string]string{
		"snap/a.jpg": "../blobs/x", "snap/gone.jpg": "none", "dir": "real", "real/up": "..", "self": "self",
	} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(m.src, link)), 0o755))
		testenv.Must(t, os.Symlink(to, filepath.Join(m.src, link)))
	}
	if got := m.names("bmp"); got != "blobs dir real snap" {
		t.Error(got)
	}
	if got := m.names("bmp/snap"); got != "a.bmp" {
		t.Error(got)
	}
	if got := m.names("bmp/dir"); got != "b.bmp" {
		t.Error(got)
	}
	m.want("hello", "original/snap/a.jpg")
	m.want(string(derived("bmp", []byte("hello"))), "bmp/snap/a.bmp")
	m.want("b", "original/dir/b.jpg")
	if st, err := os.Lstat(m.path("original/snap/a.jpg")); err != nil || !st.Mode().IsRegular() {
		t.Errorf("a link is shown as %v, %v", st.Mode(), err)
	}
}

// That the kernel need not ask again is no error.
func TestOpenIsNoError(t *testing.T) {
	var r account.Recorder
	a := account.New()
	m := mount(t, PageCache, func(o *Options) { o.Trace, o.Account = &r, a })
	defer r.Close()
	m.write("a.jpg", "fine")
	since := r.Take(-1).Next
	m.want("fine", "original/a.jpg")
	opened := false
	for _, e := range r.Take(since).Events {
		opened = opened || e.Op == "open"
		if e.Errno != 0 {
			t.Errorf("%+v", e)
		}
	}
	if !opened {
		t.Error("nothing was opened")
	}
}

func TestErrorsAreLogged(t *testing.T) {
	m := mount(t, PageCache)
	m.write("d/broken.jpg", "BROKEN")
	for range 5 { // epochs: there is one line for all
		if _, err := os.ReadFile(m.path("bmp/d/broken.bmp")); !errors.Is(err, unix.EIO) {
			t.Errorf("a broken sample: %v", err)
		}
	}
	log := m.log.String()
	if strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "view=bmp sample=d/broken.bmp") || !strings.Contains(log, "bad data: scan 3") {
		t.Errorf("log:\n%s", log)
	}
	m.want("BROKEN", "original/d/broken.jpg") // only the view suffers
	m.write("d/broken.jpg", "mended")
	m.want(string(derived("bmp", []byte("mended"))), "bmp/d/broken.bmp")

	m.write("d/later.jpg", "fine")
	for cause, want := range map[error]error{
		errors.New("disk on fire"): unix.EIO, os.ErrPermission: unix.EACCES, os.ErrNotExist: unix.ESTALE,
	} {
		// looked up, and again once the kernel has been told of the new file: it is
		// the read that has to fail
		for range 2 {
			if _, err := os.Stat(m.path("original/d/later.jpg")); err != nil {
				t.Fatal(err)
			}
			m.told()
		}
		m.fails.Store(&cause)
		if _, err := os.ReadFile(m.path("original/d/later.jpg")); !errors.Is(err, want) {
			t.Errorf("%v: read says %v, want %v", cause, err, want)
		}
		m.fails.Store(nil)
		m.told()
	}
	// The kernel tries once more when reading ahead fails.
	if log := m.log.String(); strings.Count(log, "disk on fire") != 1 || !strings.Contains(log, "offset=0") {
		t.Errorf("log:\n%s", log)
	}
	for _, v := range m.fs.Stats().Views {
		if v.View == "bmp" && (v.Errors < 5 || v.Lookups == 0) || v.View == "original" && v.Errors < 3 {
			t.Errorf("counted %+v", v)
		}
	}
}
