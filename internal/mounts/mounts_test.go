package mounts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testenv.Must(t, err)
	link := func(name, target string) {
		testenv.Must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	testenv.Must(t, os.MkdirAll(filepath.Join(dir, "real/sub"), 0o755))
	link("relative", "real/sub")
	link("chain", "relative")
	link("absolute", filepath.Join(dir, "real"))
	link("dangling", "real/nothing")
	link("loop", "loop")
	for name, want := range map[string]string{
		"real": "real", "real/sub/": "real/sub", "relative": "real/sub", "chain": "real/sub", "absolute/sub": "real/sub",
		"dangling": "real/nothing", "new": "new", "real/../real": "real",
	} {
		got, err := Resolve(filepath.Join(dir, name))
		if err != nil || got != filepath.Join(dir, want) {
			t.Errorf("Resolve(%s) = %s, %v; want %s", name, got, err, want)
		}
	}
	if _, err := Resolve(filepath.Join(dir, "loop")); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
	if _, err := Resolve(filepath.Join(dir, "no/such")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing parent: %v", err)
	}
	if got, err := Resolve("/"); err != nil || got != "/" {
		t.Errorf("the root: %s, %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	full, file := filepath.Join(dir, "full"), filepath.Join(dir, "full/file")
	testenv.Must(t, os.Mkdir(full, 0o755))
	testenv.Must(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct {
		dir      string
		nonempty bool
		want     string // part of the error; empty for none
	}{
		{t.TempDir(), false, ""},
		{full, true, ""},
		{full, false, "not empty"},
		{file, false, "not a directory"},
		{filepath.Join(dir, "none"), false, "mkdir -p " + dir + "/none"},
	} {
		dead, err := Check(c.dir, c.nonempty)
		if dead {
			t.Errorf("%s is dead", c.dir)
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.dir, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want one with %q", c.dir, err, c.want)
		}
	}
}

func TestApart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data/inner", "mnt"} {
		testenv.Must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for _, c := range []struct{ mnt, dataset, want string }{
		{"mnt", "data", ""},
		{"data/inner", "data", "lies inside"},
		{"data", "data/inner", "would hide it"},
		{"data", "data", "over itself"},
	} {
		err := Apart(filepath.Join(dir, c.mnt), filepath.Join(dir, c.dataset))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: %v", c.mnt, c.dataset, err)
		}
	}
}

func TestAnswerGivesUp(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	started := time.Now()
	_, err := Answer("/x", 20*time.Millisecond, func() (int, error) { <-release; return 0, nil })
	if !errors.Is(err, ErrHung) || time.Since(started) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	if n, err := Answer("/x", time.Minute, func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestUsers(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testenv.Must(t, err)
	file := filepath.Join(dir, "file")
	testenv.Must(t, os.WriteFile(file, []byte("x"), 0o644))
	if users := Users(dir, 5); len(users) != 0 {
		t.Fatalf("nobody uses it, yet: %v", users)
	}
	f, err := os.Open(file)
	testenv.Must(t, err)
	defer f.Close()
	cmd := exec.Command("sleep", "60")
	cmd.Dir = dir
	testenv.Must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	got := map[int]string{}
	for _, p := range Users(dir, 5) {
		got[p.PID] = p.Uses
	}
	if got[os.Getpid()] != "has open "+file {
		t.Errorf("this process %q", got[os.Getpid()])
	}
	if got[cmd.Process.Pid] != "works in "+dir {
		t.Errorf("sleep %q", got[cmd.Process.Pid])
	}
	if len(Users(dir, 1)) != 1 {
		t.Error("the limit is not kept")
	}
}

func TestUsersSeesMappings(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testenv.Must(t, err)
	f, err := os.Create(filepath.Join(dir, "file"))
	testenv.Must(t, err)
	testenv.Must(t, f.Truncate(4096))
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	f.Close()
	testenv.Must(t, err)
	defer func() { _ = unix.Munmap(m) }()
	if users := Users(dir, 5); len(users) != 1 || !strings.HasPrefix(users[0].Uses, "has mapped ") {
		t.Errorf("got %v", users)
	}
}

func TestUserAllowOther(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "#user_allow_other\n": false, "user_allow_other\n": true, "mount_max = 5\n  user_allow_other  ": true,
		"user_allow_others\n": false, "user_allow_other = yes": false,
	} {
		path := filepath.Join(t.TempDir(), "fuse.conf")
		testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
		if got, err := userAllowOther(path); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// A mount that was replaced by another one at the same place is left alone.
func TestPlace(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testenv.Must(t, err)
	mount := func() {
		t.Helper()
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Fatalf("mounting a tmpfs, which this test needs root for: %v", err)
		}
	}
	mount()
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	first, err := PlaceOf(dir)
	testenv.Must(t, err)
	f, err := os.Create(filepath.Join(dir, "busy"))
	testenv.Must(t, err)
	defer f.Close()
	if err := first.Unmount(false); !errors.Is(err, ErrBusy) {
		t.Errorf("busy: %v", err)
	}
	if err := first.Unmount(true); err != nil {
		t.Error(err)
	}
	mount()
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	if err := first.Unmount(true); err != nil {
		t.Error(err)
	}
	second, err := PlaceOf(dir)
	if err != nil {
		t.Fatalf("the second mount was taken away with the first: %v", err)
	}
	if err := second.Unmount(false); err != nil {
		t.Error(err)
	}
	if _, err := PlaceOf(dir); err == nil {
		t.Error("still mounted")
	}
}

// TestExitStatus: what a process ended with is known before it is reaped.
func TestExitStatus(t *testing.T) {
	for script, want := range map[string]func(syscall.WaitStatus) bool{
		"kill -ABRT $$": func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGABRT },
		"kill -KILL $$": func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGKILL },
		"exit 7":        func(s syscall.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 7 },
	} {
		cmd := exec.Command("sh", "-c", script)
		testenv.Must(t, cmd.Start())
		testenv.EventuallyIs(t, "the process has ended", func() bool { return Zombie(cmd.Process.Pid) })
		if s := ExitStatus(cmd.Process.Pid); !want(s) {
			t.Errorf("%s: status %#x", script, int(s))
		}
		_ = cmd.Wait() // an error, as it should be
	}
	if s := ExitStatus(os.Getpid()); s != 0 {
		t.Errorf("of a process that runs: %#x", int(s))
	}
}
