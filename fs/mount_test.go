package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
)

// inBoth runs a test in both cache modes.
func inBoth(t *testing.T, test func(t *testing.T, m *mounted)) {
	for _, mode := range []CacheMode{PageCache, DaemonCache} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mount(t, mode)) })
	}
}

func TestUnmountWhileOpen(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("a.jpg", "hello")
		f, err := os.Open(m.path("bmp", "a.bmp"))
		testenv.Must(t, err)
		defer f.Close()
		if err := m.unmount(); !errors.Is(err, mounts.ErrBusy) {
			t.Errorf("unmount while a file is open: %v", err)
		}
		m.want("hello", "original", "a.jpg")
		testenv.Must(t, m.UnmountLazily())
		if entries, _ := os.ReadDir(m.mnt); len(entries) != 0 {
			t.Error("still in the tree after unmounting lazily")
		}
		buf := make([]byte, 3)
		if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "bmp" {
			t.Errorf("an open file after unmounting lazily: %q, %v", buf, err)
		}
		select {
		case <-m.Done():
			t.Error("ended while a file is open")
		case <-time.After(20 * time.Millisecond):
		}
		f.Close()
		select {
		case <-m.Done():
		case <-time.After(5 * time.Second):
			t.Error("did not end when the last file was closed")
		}
	})
}

func TestUnmountFromOutside(t *testing.T) {
	m := mount(t, PageCache)
	out, err := exec.Command("fusermount3", "-u", m.mnt).CombinedOutput()
	if err != nil {
		t.Fatalf("fusermount3 -u: %v: %s", err, out)
	}
	m.Wait()
	if err := m.UnmountLazily(); err != nil {
		t.Errorf("unmounting what is not mounted: %v", err)
	}
}

func TestMountOverDead(t *testing.T) {
	// A connection without a daemon is what one that died leaves behind.
	testenv.Mounts(t)
	src, mnt := t.TempDir(), t.TempDir()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	testenv.Must(t, err)
	testenv.Must(t, unix.Mount("x", mnt, "fuse.pipefs", unix.MS_RDONLY, fmt.Sprintf("fd=%d", fd)+",rootmode=40000,user_id=0,group_id=0"))
	unix.Close(fd)
	if _, err := os.Stat(mnt); !errors.Is(err, unix.ENOTCONN) {
		t.Fatalf("stat: %v", err)
	}
	m := mountAt(t, src, mnt, PageCache)
	defer m.end()
	m.write("a.txt", "x")
	m.want("x", "original/a.txt")
	if !strings.Contains(m.log.String(), "daemon that died") {
		t.Error("not logged")
	}
	testenv.Must(t, m.unmount())
}

func TestMountErrors(t *testing.T) {
	m := mount(t, PageCache)
	if _, err := Mount(m.mnt, m.fs, MountOptions{}); err == nil {
		t.Error("mounted twice")
	}
	other, err := New(Options{Registry: testRegistry(), Server: m.p})
	testenv.Must(t, err)
	for _, dir := range []string{filepath.Join(m.src, "none"), "/proc/version"} {
		if _, err := Mount(dir, other, MountOptions{}); err == nil {
			t.Errorf("mounted on %s", dir)
		} else {
			t.Log(err)
		}
	}
	for _, o := range []Options{{}, {Registry: testRegistry(), Server: m.p, Views: []string{"bmp-npy"}}, {Registry: testRegistry(), Server: m.p, Views: []string{"none"}}} {
		if _, err := New(o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
}

func TestMountTable(t *testing.T) {
	m := mount(t, PageCache)
	table, err := os.ReadFile("/proc/self/mounts")
	testenv.Must(t, err)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if f[1] != m.mnt {
			continue
		}
		options := "," + f[3] + ","
		if f[0] != m.src || f[2] != "fuse.pipefs" {
			t.Errorf("mounted as %s", line)
		}
		for _, want := range []string{"ro", "nosuid", "nodev", "default_permissions"} {
			if !strings.Contains(options, ","+want+",") {
				t.Errorf("options %s lack %s", options, want)
			}
		}
		return
	}
	t.Error("not in the mount table")
}

// TestNotInherited: what the daemon starts must not keep the mount alive.
func TestNotInherited(t *testing.T) {
	m := mount(t, PageCache)
	out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
	if err != nil || strings.Contains(string(out), "/dev/fuse") {
		t.Errorf("%v: a child inherits the connection of %s:\n%s", err, m.mnt, out)
	}
}

func TestReadAhead(t *testing.T) {
	m := mount(t, PageCache)
	var st unix.Stat_t
	testenv.Must(t, unix.Stat(m.mnt, &st))
	file := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "4096\n" {
		t.Errorf("read_ahead_kb is %q, %v", got, err)
	}
}

func TestPermissions(t *testing.T) {
	testenv.Mounts(t)
	testenv.Root(t) // to become somebody else
	src, mnt := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Dir(src), src, mnt, filepath.Dir(mnt)} {
		testenv.Must(t, os.Chmod(dir, 0o755))
	}
	for _, other := range []bool{false, true} {
		m := mountAt(t, src, t.TempDir(), PageCache)
		testenv.Must(t, m.unmount())
		var err error
		if m.fs, err = New(Options{Registry: testRegistry(), Server: m.p}); err != nil {
			t.Fatal(err)
		}
		if m.Mountpoint, err = Mount(mnt, m.fs, MountOptions{AllowOther: other}); err != nil {
			t.Fatal(err)
		}
		m.mnt = mnt
		m.write("open.txt", "open")
		m.write("closed.txt", "closed")
		testenv.Must(t, os.Chmod(filepath.Join(src, "closed.txt"), 0o600))
		for name, want := range map[string]string{"open.txt": "open", "closed.txt": "EACCES"} {
			if !other {
				want = "EACCES"
			}
			if got := inChild(t, "as", m.path("original", name)); got != want {
				t.Errorf("allow_other %v: nobody reads %q in %s, want %q", other, got, name, want)
			}
		}
		testenv.Must(t, m.unmount())
		m.end()
	}
}

func TestPanics(t *testing.T) {
	m := mount(t, PageCache, func(o *Options) {
		o.Files = map[string]func() ([]byte, error){"manifest": func() ([]byte, error) { panic("boom") }}
	})
	defer func() { *m.log = testenv.Log{} }()
	m.write("a.jpg", "hello")
	if _, err := m.read(".pipefs", "manifest"); !errors.Is(err, unix.EIO) {
		t.Errorf("a panic is answered by %v", err)
	}
	if n := m.fs.Stats().Panics; n != 1 {
		t.Errorf("%d panics counted", n)
	}
	if log := m.log.String(); strings.Count(log, "boom") < 1 || !strings.Contains(log, "mount_test.go") {
		t.Errorf("log lacks the stack:\n%s", log)
	}
	m.want(string(derived("bmp", []byte("hello"))), "bmp", "a.bmp")
}

func TestManyMountsAtOnce(t *testing.T) {
	src := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(src, "a.jpg"), []byte("x"), 0o644))
	var wg sync.WaitGroup
	for range 8 {
		mnt := t.TempDir()
		wg.Go(func() {
			m := mountAt(t, src, mnt, PageCache)
			m.want("x", "original", "a.jpg")
			if err := m.unmount(); err != nil {
				t.Error(err)
			}
			m.end()
		})
	}
	wg.Wait()
}

// TestFusermount mounts and unmounts as one may who is not root: by a thread
// without CAP_SYS_ADMIN.
func TestFusermount(t *testing.T) {
	testenv.Mounts(t)
	if _, err := mounts.Fusermount(); err != nil {
		t.Fatalf("install fuse3: %v", err)
	}
	src, mnt := t.TempDir(), t.TempDir()
	var m *mounted
	unprivileged(t, func() { m = mountAt(t, src, mnt, DaemonCache) })
	m.write("a.jpg", noise(100_000, 1))
	m.want(noise(100_000, 1), "original/a.jpg")
	m.want(string(derived("bmp", []byte(noise(100_000, 1)))), "bmp/a.bmp")
	if err := unix.Mkdir(m.path("bmp/x"), 0o755); !errors.Is(err, unix.EROFS) {
		t.Errorf("mkdir: %v", err)
	}
	f, err := os.Open(m.path("original/a.jpg"))
	testenv.Must(t, err)
	unprivileged(t, func() {
		if err := m.unmount(); !errors.Is(err, mounts.ErrBusy) {
			t.Errorf("unmount while a file is open: %v", err)
		}
	})
	f.Close()
	unprivileged(t, func() {
		testenv.Eventually(t, m.unmount) // RELEASE is not waited for
	})
	m.end()
}

// unprivileged calls f on a thread that has not got CAP_SYS_ADMIN.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			t.Error(err)
			return
		}
		data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
		data[0].Permitted &^= 1 << unix.CAP_SYS_ADMIN
		if err := unix.Capset(&header, &data[0]); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}
