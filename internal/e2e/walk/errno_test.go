package walk

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// nodes has one path of each kind below a mount, and the kind's name in the reference.
var nodes = []struct{ kind, path string }{
	{"mount point", "."},
	{"directory", "original/cats"},
	{"directory of a view", "bmp/cats"},
	{"directory of batches", ".epoch/7/0/1/0/2/rrc32-npy"},
	{"sample", "original/cats/0.jpg"},
	{"sample of a view", "bmp/cats/0.bmp"},
	{"other file", "bmp/labels.txt"},
	{"batch", ".epoch/7/0/1/0/2/rrc32-npy/000000.npy"},
	{"index of an epoch", ".epoch/7/0/1/0/2/rrc32-npy/index.json"},
	{"draw", ".draw/7/0/rrc32-npy/cats/0.npy"},
	{"sample of a random view", "rrc32-npy/cats/0.npy"},
	{"link of the dataset", "original/cats/link.jpg"},
	{"link of the mount", "current"},
}

// TestErrno makes every system call of calls on each kind of node, and on a copy of it on an
// ext4 file system that is mounted read-only. What differs is listed in docs/generated/syscalls.md, and
// nothing else is.
func TestErrno(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	testenv.Root(t)
	dataset := t.TempDir()
	testenv.Must(t, os.Mkdir(filepath.Join(dataset, "cats"), 0o755))
	for i := range 4 {
		testenv.Must(t, pictures.Write(filepath.Join(dataset, "cats", fmt.Sprintf("%d.jpg", i)), pictures.Photo(160, 120, uint64(i))))
	}
	testenv.Must(t, os.Symlink("0.jpg", filepath.Join(dataset, "cats/link.jpg")))
	testenv.Must(t, os.WriteFile(filepath.Join(dataset, "labels.txt"), []byte("0 is a cat\n"), 0o644))
	for _, mode := range []string{"page", "daemon"} {
		t.Run(mode, func(t *testing.T) {
			mnt := testmount.Mount(t, testmount.Home(t), dataset, "--cache", mode)
			ext4 := readOnlyExt4(t, mnt)
			found := differences(t, mnt, ext4)
			if diff := cmp.Diff(documented(t, found), found); diff != "" {
				t.Errorf("docs/generated/syscalls.md (-there +found; -args -update-errno writes it):\n%s", diff)
			}
			// The kernel refuses most of it before it asks. Mounted again as writable it does not, and
			// may refuse it for another reason first.
			testenv.Must(t, unix.Mount("", mnt, "", unix.MS_REMOUNT, ""))
			done := slices.DeleteFunc(differences(t, mnt, ext4), func(d string) bool {
				return slices.Contains(found, d) || slices.Contains(doneWhereWritable, d) || !strings.HasSuffix(d, " | OK")
			})
			if len(done) > 0 {
				t.Errorf("mounted again as writable:\n%s", strings.Join(done, "\n"))
			}
		})
	}
}

// doneWhereWritable is what a mount does that was mounted again as writable, and a read-only file
// system does not. The kernel does it all without asking; nothing is written. It asks for opens with
// --cache daemon.
var doneWhereWritable = []string{
	"open O_WRONLY | files, link of the dataset | EROFS | OK",
	"open O_RDWR | files, link of the dataset | EROFS | OK",
	"open O_WRONLY O_APPEND | files, link of the dataset | EROFS | OK",
	"open O_CREAT O_WRONLY | files, link of the dataset | EROFS | OK",
	"open O_ACCMODE | files, link of the dataset | EROFS | OK",
	"rename to itself | sample, sample of a view, other file, batch, index of an epoch, draw, directory, directory of a view, directory of batches, links | EROFS | OK",
	"access W_OK | all | EROFS | OK",
}

// readOnlyExt4 copies the nodes of a mount, and what they lead to, to an ext4 file system.
func readOnlyExt4(t *testing.T, mnt string) string {
	t.Helper()
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	testenv.Must(t, os.WriteFile(image, nil, 0o600))
	testenv.Must(t, os.Truncate(image, 16<<20))
	for _, words := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("this test needs e2fsprogs and a loop device: %v: %v: %s", words, err, out)
		}
	}
	t.Cleanup(func() { testenv.Must(t, unix.Unmount(dir, 0)) })
	testenv.Must(t, os.Remove(filepath.Join(dir, "lost+found")))
	for _, copied := range []string{"original", "bmp", "scan10", ".epoch/7/0/1/0/2/rrc32-npy", ".draw/7/0/rrc32-npy", "rrc32-npy"} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, copied)), 0o755))
		testenv.Must(t, os.CopyFS(filepath.Join(dir, copied), os.DirFS(filepath.Join(mnt, copied))))
	}
	for link, to := range map[string]string{"original/cats/link.jpg": "0.jpg", "current": "scan10"} {
		_ = os.Remove(filepath.Join(dir, link))
		testenv.Must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	testenv.Must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Type() == fs.ModeSymlink {
			return err
		}
		st, err := os.Stat(filepath.Join(mnt, strings.TrimPrefix(name, dir)))
		if err != nil {
			return err
		}
		return os.Chmod(name, st.Mode().Perm())
	}))
	testenv.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return dir
}

// differences are lines "call | kinds of nodes | result on ext4 | result on pipefs".
func differences(t *testing.T, mnt, ext4 string) []string {
	t.Helper()
	lines := []string{}
	if len(calls) < 80 {
		t.Errorf("%d system calls", len(calls))
	}
	for _, c := range calls {
		kinds := map[[2]string][]string{}
		var order [][2]string
		for _, n := range nodes {
			got, want := c.do(newTarget(t, mnt, n.path)), c.do(newTarget(t, ext4, n.path))
			if got == want {
				continue
			}
			pair := [2]string{want, got}
			if kinds[pair] == nil {
				order = append(order, pair)
			}
			kinds[pair] = append(kinds[pair], n.kind)
		}
		for _, pair := range order {
			lines = append(lines, strings.Join([]string{c.name, named(kinds[pair]), pair[0], pair[1]}, " | "))
		}
	}
	return lines
}

// named says of which kinds of nodes something is so.
func named(kinds []string) string {
	is := func(k string) bool { return slices.Contains(kinds, k) }
	var files, dirs, links []string
	for _, n := range nodes {
		switch {
		case strings.HasPrefix(n.kind, "link"):
			links = append(links, n.kind)
		case strings.HasPrefix(n.kind, "directory"), n.kind == "mount point":
			dirs = append(dirs, n.kind)
		default:
			files = append(files, n.kind)
		}
	}
	var said []string
	for _, group := range []struct {
		name  string
		kinds []string
	}{{"files", files}, {"directories", dirs}, {"links", links}} {
		if !slices.ContainsFunc(group.kinds, func(k string) bool { return !is(k) }) {
			said = append(said, group.name)
			continue
		}
		said = append(said, slices.DeleteFunc(group.kinds, func(k string) bool { return !is(k) })...)
	}
	if len(said) == 3 && len(kinds) == len(nodes) {
		return "all"
	}
	return strings.Join(said, ", ")
}

var updateErrno = flag.Bool("update-errno", false, "write the table of differences into docs/generated/syscalls.md; reasons are kept")

// documented reads the table of docs/generated/syscalls.md, without its reasons.
func documented(t *testing.T, found []string) []string {
	t.Helper()
	const name, begin = "../../../docs/generated/syscalls.md", "| call | on | ext4 | pipefs | why |\n|---|---|---|---|---|\n"
	text, err := os.ReadFile(name)
	testenv.Must(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	if !ok && !*updateErrno {
		t.Fatalf("%s has no such table", name)
	}
	table, after, _ := strings.Cut(rest, "\n\n")
	lines, why := []string{}, map[string]string{}
	for line := range strings.Lines(table + "\n") {
		line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "| "), " |")
		i := strings.LastIndex(line, " | ")
		if i < 0 {
			continue
		}
		if strings.TrimSpace(line[i+3:]) == "" {
			t.Errorf("%s says of %q no reason", name, line[:i])
		}
		lines, why[line[:i]] = append(lines, line[:i]), line[i+3:]
	}
	if *updateErrno {
		var b strings.Builder
		b.WriteString(before + begin)
		for _, line := range found {
			fmt.Fprintf(&b, "| %s | %s |\n", line, why[line])
		}
		b.WriteString("\n" + after)
		testenv.Must(t, os.WriteFile(name, []byte(b.String()), 0o644))
		return found
	}
	return lines
}

// A target is a node, of which a call is made.
type target struct {
	t    *testing.T
	top  string
	path string
	dir  bool // itself, or what it leads to
}

func newTarget(t *testing.T, top, path string) target {
	t.Helper()
	st, err := os.Stat(filepath.Join(top, path))
	testenv.Must(t, err)
	return target{t: t, top: top, path: filepath.Join(top, path), dir: st.IsDir()}
}

// result is the name of an error's number; OK is none.
func result(err error) string {
	if err == nil {
		return "OK"
	}
	if no, ok := err.(unix.Errno); ok { //nolint:errorlint // a system call returns it as it is
		return unix.ErrnoName(no)
	}
	return err.Error()
}

// value is a number, or the name of an error's number.
func value[N int | int64 | uint64](n N, err error) string {
	if err != nil {
		return result(err)
	}
	return fmt.Sprint(n)
}

// fd calls f with the node, opened for reading.
func fd(f func(fd int) string) func(target) string { return opened(unix.O_RDONLY, f) }

func opened(flags int, f func(fd int) string) func(target) string {
	return func(n target) string {
		fd, err := unix.Open(n.path, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return result(err)
		}
		defer unix.Close(fd)
		return f(fd)
	}
}

// onFile is a call that says of directories what depends on the file system by its nature.
func onFile(do func(target) string) func(target) string {
	return func(n target) string {
		if n.dir {
			return "not tried"
		}
		return do(n)
	}
}

// open returns what opening a path gives, and closes it.
func open(suffix string, flags int) func(target) string {
	return func(n target) string {
		fd, err := unix.Open(n.path+suffix, flags|unix.O_CLOEXEC, 0o644)
		if err == nil {
			unix.Close(fd)
		}
		return result(err)
	}
}

// onPath is a call of one path.
func onPath(suffix string, do func(path string) error) func(target) string {
	return func(n target) string { return result(do(n.path + suffix)) }
}

// outside calls f with the node, opened, and a file that can be written elsewhere.
func outside(f func(fd, other int) (int, error)) func(target) string {
	return func(n target) string {
		other, err := os.CreateTemp(n.t.TempDir(), "")
		testenv.Must(n.t, err)
		defer other.Close()
		return fd(func(fd int) string { return value(f(fd, int(other.Fd()))) })(n)
	}
}

// piped calls f with the node, opened, and the writing end of a pipe.
func piped(f func(fd, pipe int) (int64, error)) func(target) string {
	return func(n target) string {
		r, w, err := os.Pipe()
		testenv.Must(n.t, err)
		defer r.Close()
		defer w.Close()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		return fd(func(fd int) string { return value(f(fd, int(w.Fd()))) })(n)
	}
}
