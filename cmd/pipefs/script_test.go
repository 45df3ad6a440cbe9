package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
)

// The test's program is pipefs, too, if it is called by that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pipefs": func() { os.Exit(run()) }})
}

// TestScript runs testdata/script/*.txtar. They mount, so they need /dev/fuse and
// root; without they fail, for a green run that tested nothing would be a lie.
func TestScript(t *testing.T) {
	testenv.Slow(t)
	if os.Geteuid() != 0 {
		t.Fatal("these tests mount and change users: run them as root")
	}
	if err := mounts.CheckFUSE(""); err != nil {
		t.Fatalf("these tests mount: %v", err)
	}
	var left leftovers
	t.Cleanup(func() { left.report(t) })
	// The bin directory of the scripts is closed to other users.
	openUp(t)
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: func(e *testscript.Env) error { return setup(e, &left) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "mounted": cmdMounted, "signal": cmdSignal, "ended": cmdEnded, "gone": cmdGone, "many": cmdMany,
			"listen": cmdListen, "heard": cmdHeard, "hold": cmdHold, "eventually": cmdEventually,
			"row": cmdRow, "photos": cmdPhotos, "costly": cmdCostly, "labels": cmdLabels, "turned": cmdTurned,
		},
		RequireExplicitExec: true,
	})
}

func openUp(t *testing.T) {
	program, err := exec.LookPath("pipefs")
	testenv.Must(t, err)
	for _, dir := range []string{filepath.Dir(program), filepath.Dir(filepath.Dir(program))} {
		testenv.Must(t, os.Chmod(dir, 0o755))
	}
}

// setup makes a dataset, a mount directory and a home of its own for each script.
func setup(e *testscript.Env, left *leftovers) error {
	// sockets need short paths
	run, err := os.MkdirTemp("/tmp", "pf")
	if err != nil {
		return err
	}
	e.Defer(func() {
		left.clean(e.WorkDir)
		left.add(filepath.Glob(filepath.Join(run, "pipefs", "*")))
		os.RemoveAll(run)
	})
	e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
	e.Setenv("XDG_RUNTIME_DIR", run)
	e.Setenv("RUN", run)
	here, err := filepath.Abs("testdata")
	if err != nil {
		return err
	}
	e.Setenv("TESTDATA", here)
	// the race detector waits for a second at the end of each process otherwise
	e.Setenv("GORACE", "atexit_sleep_ms=0")
	for _, dir := range []string{"home", "mnt", "ds/sub"} {
		if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o755); err != nil {
			return err
		}
	}
	for dir := e.WorkDir; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return writeDataset(filepath.Join(e.WorkDir, "ds"))
}

// writeDataset makes three JPEG, a picture and a mask in PNG, a file of labels, and
// two files that are broken.
func writeDataset(dir string) error {
	photo := image.NewRGBA(image.Rect(0, 0, 60, 40))
	for i := range photo.Pix {
		photo.Pix[i] = byte(i*i>>5) | 3
		if i%4 == 3 {
			photo.Pix[i] = 255
		}
	}
	mask := image.NewPaletted(image.Rect(0, 0, 60, 40), color.Palette{color.Black, color.White, color.RGBA{R: 255, A: 255}})
	for i := range mask.Pix {
		mask.Pix[i] = byte(i / 7 % 3)
	}
	var j, p, m bytes.Buffer
	if err := errors.Join(jpeg.Encode(&j, photo, nil), png.Encode(&p, photo), png.Encode(&m, mask)); err != nil {
		return err
	}
	var errs []error
	for name, data := range map[string][]byte{
		"a.jpg": j.Bytes(), "b.jpg": j.Bytes(), "sub/c.jpg": j.Bytes(), "photo.png": p.Bytes(), "mask.png": m.Bytes(),
		"labels.json": []byte("{}\n"), "broken.jpg": j.Bytes()[:100], "text.jpg": []byte("\xff\xd8\xff\xd8no picture\n"),
	} {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	return errors.Join(errs...)
}

// leftovers collects what scripts left behind.
type leftovers struct {
	mu    sync.Mutex
	found []string
}

func (l *leftovers) add(found []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, found...)
	if err != nil {
		l.found = append(l.found, err.Error())
	}
}

func (l *leftovers) report(t *testing.T) {
	for _, what := range l.found {
		t.Errorf("left behind: %s", what)
	}
}

// clean takes away the mounts and daemons below dir, and tells of them.
func (l *leftovers) clean(dir string) {
	// A script beside this one may have a namespace with a copy of the mount, which lives as long.
	until := time.Now().Add(time.Minute)
	for len(daemons(dir)) > 0 && time.Now().Before(until) {
		time.Sleep(20 * time.Millisecond) // one that is about to end
	}
	for _, pid := range daemons(dir) {
		l.add([]string{fmt.Sprintf("process %d: %s", pid, cmdline(pid))}, nil)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	left, err := mounts.Within(dir)
	for _, m := range left {
		l.add([]string{"mount " + m.Mountpoint}, nil)
		err = errors.Join(err, mounts.Unmount(m.Mountpoint, true))
	}
	l.add(nil, err)
}

// daemons finds the processes of pipefs that serve something below dir.
func daemons(dir string) []int {
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args := cmdline(pid)
		program, _, _ := strings.Cut(args, " ")
		if filepath.Base(program) == "pipefs" && strings.Contains(args, dir) {
			found = append(found, pid)
		}
	}
	return found
}

func cmdline(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(strings.TrimSuffix(string(b), "\x00"), "\x00", " ")
}

// exits CODE COMMAND…: the command exits with exactly that code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		code = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// mounted DIR: a mount of pipefs is there.
func cmdMounted(ts *testscript.TestScript, neg bool, args []string) {
	m, err := mounts.At(ts.MkAbs(args[0]))
	ts.Check(err)
	if is := m != nil && m.Ours(); is == neg {
		ts.Fatalf("mounted is %v", is)
	}
}

// daemonAt finds the daemon that serves a directory: the child of its supervisor.
func daemonAt(ts *testscript.TestScript, dir string) int {
	found := daemons(ts.MkAbs(dir))
	for _, pid := range found {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		ts.Check(err)
		if len(found) == 2 && strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", found[0]+found[1]-pid)) {
			return pid
		}
	}
	ts.Fatalf("no daemon and its supervisor serve %s: %v", dir, found)
	return 0
}

// signal NAME DIR: sends a signal to the daemon of a mount.
func cmdSignal(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Kill(daemonAt(ts, args[1]), unix.SignalNum("SIG"+args[0])))
	if args[0] == "KILL" {
		// its descriptors are closed a moment after it has left the list of processes
		waitFor(ts, func() bool { return errors.Is(mounts.Probe(ts.MkAbs(args[1])), unix.ENOTCONN) })
	}
}

// ended DIR: the daemon of a mount ends, and the mount is gone.
func cmdEnded(ts *testscript.TestScript, _ bool, args []string) {
	waitFor(ts, func() bool { return len(daemons(ts.MkAbs(args[0]))) == 0 })
	cmdMounted(ts, true, args)
}

// gone DIR: the mount goes away.
func cmdGone(ts *testscript.TestScript, _ bool, args []string) {
	waitFor(ts, func() bool {
		m, err := mounts.At(ts.MkAbs(args[0]))
		ts.Check(err)
		return m == nil
	})
}

func waitFor(ts *testscript.TestScript, done func() bool) {
	for range 1500 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("nothing happened for 15 seconds")
}

// eventually FILE TEXT: the file comes to contain the text.
func cmdEventually(ts *testscript.TestScript, _ bool, args []string) {
	waitFor(ts, func() bool {
		b, _ := os.ReadFile(ts.MkAbs(args[0]))
		return bytes.Contains(b, []byte(args[1]))
	})
}

// listen: a service manager listens, and NOTIFY_SOCKET names it.
func cmdListen(ts *testscript.TestScript, _ bool, _ []string) {
	name := filepath.Join(ts.Getenv("RUN"), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	ts.Check(err)
	ts.Defer(func() { conn.Close() })
	ts.Setenv("NOTIFY_SOCKET", name)
	managers.Store(name, conn)
}

var managers sync.Map // of net.UnixConn, by the name of their sockets

// heard STATE: the next thing the service manager is told.
func cmdHeard(ts *testscript.TestScript, _ bool, args []string) {
	v, _ := managers.Load(ts.Getenv("NOTIFY_SOCKET"))
	conn := v.(*net.UnixConn)
	ts.Check(conn.SetReadDeadline(time.Now().Add(20 * time.Second)))
	b := make([]byte, 100)
	n, err := conn.Read(b)
	ts.Check(err)
	if string(b[:n]) != args[0] {
		ts.Fatalf("heard %q", b[:n])
	}
}

// many DIR N: makes a dataset of N pictures that take a while to pack.
func cmdMany(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.Mkdir(dir, 0o755))
	photo := image.NewGray(image.Rect(0, 0, 1000, 800))
	for i := range photo.Pix {
		photo.Pix[i] = byte(i * i >> 7)
	}
	var b bytes.Buffer
	ts.Check(jpeg.Encode(&b, photo, nil))
	first := filepath.Join(dir, "0.jpg")
	ts.Check(os.WriteFile(first, b.Bytes(), 0o644))
	for i := 1; i < n; i++ {
		ts.Check(os.Link(first, filepath.Join(dir, fmt.Sprint(i)+".jpg")))
	}
}

// labels FILE: makes a mask in PNG whose colours are its labels.
func cmdLabels(ts *testscript.TestScript, _ bool, args []string) {
	img := image.NewRGBA(image.Rect(0, 0, 60, 40))
	for i := range img.Pix {
		x, y, c := i/4%60, i/4/60, i%4
		img.Pix[i] = byte((x/10 + 6*(y/10) + 1) * (97 + 31*c))
		if c == 3 {
			img.Pix[i] = 255
		}
	}
	var b bytes.Buffer
	at := ts.MkAbs(args[0])
	ts.Check(errors.Join(png.Encode(&b, img), os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, b.Bytes(), 0o644)))
}

// turned FILE…: gives JPEG files the EXIF orientation of a camera that was held upright.
func cmdTurned(ts *testscript.TestScript, _ bool, args []string) {
	const app1 = "\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	for _, name := range args {
		b, err := os.ReadFile(ts.MkAbs(name))
		ts.Check(errors.Join(err, os.WriteFile(ts.MkAbs(name), append([]byte("\xff\xd8"+app1), b[2:]...), 0o644)))
	}
}

// row [-once] CELL…: a table in the standard output has these cells side by side, each
// matched by a regular expression as a whole.
func cmdRow(ts *testscript.TestScript, neg bool, args []string) {
	once := args[0] == "-once"
	if once {
		args = args[1:]
	}
	matches := func(cells []string) bool {
		for i, cell := range cells[:len(args)] {
			if ok, err := regexp.MatchString("^(?:"+args[i]+")$", strings.TrimSpace(cell)); err != nil || !ok {
				ts.Check(err)
				return false
			}
		}
		return true
	}
	found := 0
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		for cells := strings.Split(line, "│"); len(cells) >= len(args); cells = cells[1:] {
			if matches(cells) {
				found++
				break
			}
		}
	}
	if (found > 0) == neg || once && found != 1 {
		ts.Fatalf("%d rows have the cells %q", found, args)
	}
}

// hold FILE: keeps a file open until the script ends; ! hold lets go of all.
func cmdHold(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		if v, ok := held.LoadAndDelete(ts.Getenv("WORK")); ok {
			v.(*os.File).Close()
		}
		return
	}
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	held.Store(ts.Getenv("WORK"), f)
	ts.Defer(func() { f.Close() })
}

var held sync.Map // of *os.File, by script
