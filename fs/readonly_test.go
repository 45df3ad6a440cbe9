package fs

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestReadOnly: every system call that would change something is refused on
// every kind of node, as on a read-only ext4; once as the kernel mounts it, and
// once mounted again as writable, so that pipefs itself has to refuse.
func TestReadOnly(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		testenv.Must(t, m.fs.SetCurrent("bmp"))
		m.write("d/a.jpg", "hello")
		m.write("b.txt", "hello")
		refuseChanges(t, m, true)
		if err := unix.Mount("", m.mnt, "", unix.MS_REMOUNT, ""); err != nil {
			t.Logf("not mounted again as writable: %v", err)
			return
		}
		refuseChanges(t, m, false)
		m.want("hello", "original/d/a.jpg")
	})
}

func refuseChanges(t *testing.T, m *mounted, readOnly bool) {
	t.Helper()
	check := func(what string, err error, want ...error) {
		t.Helper()
		for _, w := range append(want, unix.EROFS) {
			if errors.Is(err, w) {
				return
			}
		}
		t.Errorf("read-only mount %v: %s: %v", readOnly, what, err)
	}
	for _, name := range []string{"original/d/a.jpg", "bmp/d/a.bmp", "bmp/b.txt", "bmp/d", "bmp", ".pipefs", "current", "."} {
		path := m.path(name)
		st, err := os.Lstat(path)
		testenv.Must(t, err)
		link := st.Mode()&os.ModeSymlink != 0
		if !link {
			check("chmod "+name, unix.Chmod(path, 0o777))
			check("setxattr "+name, unix.Setxattr(path, "user.x", []byte("y"), 0), unix.ENOTSUP)
			check("removexattr "+name, unix.Removexattr(path, "user.x"), unix.ENOTSUP)
		}
		check("lchown "+name, unix.Lchown(path, 1, 1))
		check("utimensat "+name, unix.UtimesNanoAt(unix.AT_FDCWD, path, make([]unix.Timespec, 2), unix.AT_SYMLINK_NOFOLLOW))
		if st.Mode().IsRegular() {
			check("truncate "+name, unix.Truncate(path, 0))
			for _, flags := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_APPEND} {
				fd, err := unix.Open(path, flags, 0)
				if err == nil && !readOnly && m.fs.mode == PageCache {
					// The kernel does not ask for opens any more, but for writes.
					_, err = unix.Pwrite(fd, []byte("x"), 0)
					unix.Close(fd)
				}
				check("open "+name, err)
			}
			_, err = unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o644)
			if !errors.Is(err, unix.EEXIST) {
				t.Errorf("open %s with O_CREAT|O_EXCL: %v", name, err)
			}
			check("unlink "+name, unix.Unlink(path))
			check("link "+name, unix.Link(path, m.path("bmp/d/new")))
			check("rename "+name, unix.Rename(path, m.path("bmp/d/new")))
			check("rename onto "+name, unix.Rename(m.path("scan5/d/a.jpg"), path), unix.EXDEV)
			f, err := os.Open(path)
			testenv.Must(t, err)
			if _, err := f.Write([]byte("x")); err == nil {
				t.Errorf("wrote to %s", name)
			}
			if err := f.Truncate(0); err == nil {
				t.Errorf("truncated %s", name)
			}
			f.Close()
		}
		if st.IsDir() {
			child := m.path(name, "new")
			_, err := unix.Open(child, unix.O_CREAT|unix.O_WRONLY, 0o644)
			check("create in "+name, err)
			_, err = unix.Open(path, unix.O_TMPFILE|unix.O_WRONLY, 0o644)
			check("tmpfile in "+name, err, unix.EOPNOTSUPP)
			check("mkdir in "+name, unix.Mkdir(child, 0o755))
			check("mknod in "+name, unix.Mknod(child, unix.S_IFIFO|0o644, 0))
			check("symlink in "+name, unix.Symlink("x", child))
			if name != "." {
				check("rmdir "+name, unix.Rmdir(path))
				check("mkdir "+name, unix.Mkdir(path, 0o755), unix.EEXIST)
				check("rename "+name, unix.Rename(path, m.path("new")))
			}
		}
		if link {
			check("unlink "+name, unix.Unlink(path))
		}
	}
}
