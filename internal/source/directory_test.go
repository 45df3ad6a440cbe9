package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// tree makes files, directories (names ending in /) and links (name -> target).
func tree(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		full := filepath.Join(root, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		var err error
		switch {
		case link:
			err = os.Symlink(target, full)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(full, 0o755)
		default:
			err = os.WriteFile(full, []byte("content of "+name), 0o644)
		}
		testenv.Must(t, err)
	}
}

// open opens a dataset. When the test ends nothing of it may be open.
func open(t *testing.T, root string, o Options) *Directory {
	t.Helper()
	before, err := os.ReadDir("/proc/self/fd")
	testenv.Must(t, err)
	t.Cleanup(func() {
		if now, err := os.ReadDir("/proc/self/fd"); err != nil || len(now) != len(before) {
			t.Errorf("%d files are open, and before the test %d", len(now), len(before))
		}
	})
	d, err := Open(root, o)
	testenv.Must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func list(t *testing.T, d *Directory, dir string) []string {
	t.Helper()
	entries, err := d.List(dir)
	testenv.Must(t, err)
	names := []string{}
	for _, e := range entries {
		if e.Dir {
			e.Name += "/"
		}
		if e.Link {
			e.Name += "@"
		}
		names = append(names, e.Name)
	}
	return names
}

func TestListFollowsLinks(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	tree(t, outside, "blob", "dir/inner")
	tree(t, root,
		"b.jpg", "a.jpg", "empty/", "sub/c.jpg",
		"link.jpg -> b.jpg", "linkdir -> sub", "dangling -> nowhere",
		"self -> .", "sub/up -> ..", "loop -> loop",
		"out.jpg -> "+outside+"/blob", "outdir -> "+outside+"/dir")
	testenv.Must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	var log bytes.Buffer
	d := open(t, root, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	want := []string{"a.jpg", "b.jpg", "empty/", "link.jpg@", "linkdir/@", "out.jpg@", "outdir/@", "sub/"}
	if diff := cmp.Diff(want, list(t, d, "")); diff != "" {
		t.Errorf("root (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c.jpg"}, list(t, d, "linkdir")); diff != "" {
		t.Errorf("through a link (-want +got):\n%s", diff)
	}
	for _, left := range []string{"dangling", "self", "up", "loop", "fifo"} {
		if !strings.Contains(log.String(), "/"+left) {
			t.Errorf("no log line says that %s was left out:\n%s", left, log.String())
		}
	}
	f, err := d.Open("outdir/inner")
	testenv.Must(t, err)
	defer f.Close()
	if data, err := f.ReadAll(); err != nil || string(data) != "content of dir/inner" {
		t.Errorf("read %q, %v", data, err)
	}
}

// TestArchives: a file that holds samples is known by what it begins with, and otherwise by its name.
func TestArchives(t *testing.T) {
	record := string(binary.LittleEndian.AppendUint32(make([]byte, 8), RecordCRC(make([]byte, 8))))
	for head, want := range map[string]string{
		strings.Repeat("x", 257) + "ustar": "a tar archive", strings.Repeat("x", 16) + "\xde\xc0\xef\xbe": "an LMDB database", "PAR1": "a Parquet file",
		"": "a zip archive", record: "a TFRecord file", record[:11]: "", "plain": "", strings.Repeat("x", 257): "",
	} {
		name := filepath.Join(t.TempDir(), "A.ZIP")
		testenv.Must(t, os.WriteFile(name, []byte(head), 0o600))
		err := NotDirectory(name).Error()
		if is := strings.Contains(err, want+": "); is != (want != "") || Mountable(name) != (is && want != "an LMDB database") {
			t.Errorf("%q: %s", head, err)
		}
	}
	if crc := RecordCRC([]byte("123456789")); crc != 0xc78ab0e5 { // of 0xe3069283
		t.Errorf("the checksum is %#x", crc)
	}
	if got := Archive("a.tgz", "'a b'"); got != "a compressed tar archive: extract it (mkdir DIR && tar -xf 'a b' -C DIR) and mount DIR" || Archive("a.gz", "") != "" || !Mountable("/none.tar") {
		t.Error(got)
	}
}

// TestNumbers: modes and identities are what the numbers say that stand for them.
func TestNumbers(t *testing.T) {
	if m := ModeOf(unix.S_IFREG | 0o7750); m != fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky|0o750 || ModeOf(0o640) != 0o640 {
		t.Error(m)
	}
	for bits := range uint32(0o10000) {
		if got := BitsOf(ModeOf(bits) | fs.ModeDir); got != bits {
			t.Fatalf("%o, want %o", got, bits)
		}
	}
	id := Identity{ID: 1, Size: 2, MTime: 3, CTime: 4}
	if v := id.Version(); v != (Version{0: 1, 8: 3, 16: 4}) || IdentityOf(2, v) != id {
		t.Errorf("% x", v)
	}
}

// TestReopen: the directory of a dataset that was deleted is opened again when there is one.
func TestReopen(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	tree(t, root, "a")
	d := open(t, root, Options{})
	want := func(again bool, text string) {
		t.Helper()
		if got, err := d.Reopen(); got != again || err == nil && text != "" || err != nil && err.Error() != text {
			t.Errorf("%v, %v", got, err)
		}
	}
	want(false, "")
	testenv.Must(t, os.RemoveAll(root))
	want(false, root+" was deleted")
	tree(t, root, "b")
	want(true, "")
	want(false, "")
	if got := list(t, d, ""); len(got) != 1 || got[0] != "b" {
		t.Errorf("listed %v", got)
	}
}

// TestNames: of a long directory some names are listed, and of an empty one none.
func TestNames(t *testing.T) {
	root := t.TempDir()
	d := open(t, root, Options{Names: 3})
	for files := range 5 {
		if got, err := d.List(""); err != nil || len(got) != min(files, 3) {
			t.Errorf("%d files: %d names, %v", files, len(got), err)
		}
		testenv.Must(t, os.WriteFile(filepath.Join(root, strconv.Itoa(files)), nil, 0o600))
	}
}

func TestNoFollowStaysInside(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	tree(t, outside, "secret")
	tree(t, root, "a.jpg", "in.jpg -> a.jpg", "out.jpg -> "+outside+"/secret", "outdir -> "+outside)
	d := open(t, root, Options{NoFollow: true})
	if diff := cmp.Diff([]string{"a.jpg", "in.jpg@"}, list(t, d, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A name that was listed before the link was put in its place.
	for _, name := range []string{"out.jpg", "outdir/secret", "../" + filepath.Base(outside) + "/secret"} {
		if _, err := d.Open(name); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Open(%q): %v, want permission denied", name, err)
		}
	}
	if _, err := d.Open("nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestVerifyNoticesEveryChange(t *testing.T) {
	changes := map[string]func(name string) error{
		"rewritten": func(name string) error { return os.WriteFile(name, []byte("CONTENT OF a.jpg"), 0o644) },
		"truncated": func(name string) error { return os.Truncate(name, 3) },
		"appended":  func(name string) error { return os.Truncate(name, 99) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tree(t, root, "a.jpg")
			d := open(t, root, Options{})
			f, err := d.Open("a.jpg")
			testenv.Must(t, err)
			defer f.Close()
			if err := f.Verify(); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			testenv.Must(t, change(filepath.Join(root, "a.jpg")))
			if err := f.Verify(); !errors.Is(err, ErrChanged) {
				t.Errorf("Verify: %v, want ErrChanged", err)
			}
			if _, err := f.ReadAll(); !errors.Is(err, ErrChanged) {
				t.Errorf("ReadAll: %v, want ErrChanged", err)
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "a.jpg", "dir/")
	testenv.Must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	d := open(t, root, Options{})
	if _, err := d.Open("nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := d.OpenAs("nowhere", Identity{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	for _, name := range []string{"dir", "fifo"} { // the FIFO must not block
		if _, err := d.Open(name); err == nil {
			t.Errorf("Open(%q) succeeded", name)
		}
	}
	if _, err := Open(filepath.Join(root, "a.jpg"), Options{}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file as dataset: %v", err)
	}
}

func TestADatasetThatIsMovedKeepsWorking(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "old")
	tree(t, root, "a.jpg")
	d := open(t, root, Options{})
	testenv.Must(t, os.Rename(root, filepath.Join(parent, "new")))
	if got := list(t, d, ""); len(got) != 1 {
		t.Errorf("listed %v", got)
	}
}

// counted is a limit that notes what it is told.
type counted struct {
	began time.Time
	bytes []int
}

func (c *counted) Begin() time.Time { return c.began }

func (c *counted) Done(began time.Time, n int) {
	if began.Equal(c.began) {
		c.bytes = append(c.bytes, n)
	}
}

// TestLimit: every read is told to what limits it, with what it really read.
func TestLimit(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "a")
	limit := &counted{began: time.Now()}
	d := open(t, root, Options{Limit: limit})
	f, err := d.Open("a")
	testenv.Must(t, err)
	defer f.Close()
	if _, err := f.ReadAll(); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(make([]byte, 100), 8); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if diff := cmp.Diff([]int{len("content of a"), 4}, limit.bytes); diff != "" {
		t.Error(diff)
	}
}

func TestFreshIsStat(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "a", "sub/b", "l -> sub/b", "out -> /etc/passwd")
	for _, o := range []Options{{}, {NoFollow: true}} {
		d := open(t, root, o)
		for _, dir := range []string{"", "sub", "none"} {
			attrs, errs := Stats(d, dir, []Entry{{Name: "b"}, {Name: "l"}, {Name: "out"}})
			for i, name := range []string{"b", "l", "out"} {
				if a, err := d.Stat(path.Join(dir, name)); attrs[i] != a || fmt.Sprint(errs[i]) != fmt.Sprint(err) {
					t.Errorf("%s in %q: %+v, %v, and by Stat %+v, %v", name, dir, attrs[i], errs[i], a, err)
				}
			}
		}
		for _, name := range []string{"", "a", "sub", "sub/b", "l", "out", "none", "a/b"} {
			want, wantErr := d.Stat(name)
			got, err := d.Fresh(name)
			if got != want || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) || (err == nil) != (wantErr == nil) {
				t.Errorf("%q: %+v, %v, and by Stat %+v, %v", name, got, err, want, wantErr)
			}
		}
	}
}

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
