package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fake struct{ scans atomic.Int64 }

func (f *fake) handlers() Handlers {
	return Handlers{
		Mount: "/mnt",
		Stats: func() Stats {
			return Stats{Mount: "/mnt", PID: 7, Counters: []Counter{{Group: "g", Name: "n", Value: 1}}}
		},
		SetFidelity: func(k int) error {
			if k > 10 {
				return fmt.Errorf("fidelity %d is not from 1 to 10", k)
			}
			f.scans.Store(int64(k))
			return nil
		},
		Current: func() string { return fmt.Sprintf("scan%d", f.scans.Load()) },
	}
}

func serve(t *testing.T) (*Server, *Client) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	f := &fake{}
	f.scans.Store(10)
	s, err := Serve(path, f.handlers(), slog.New(slog.DiscardHandler))
	testenv.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s, &Client{mount: "/mnt", socket: path}
}

func TestRequests(t *testing.T) {
	_, c := serve(t)
	ctx := t.Context()
	r, err := c.Do(ctx, Request{Op: OpStats})
	if err != nil || r.Stats == nil || r.Stats.PID != 7 || len(r.Stats.Counters) != 1 {
		t.Errorf("stats: %+v, %v", r.Stats, err)
	}
	for _, k := range []int{5, 0} { // moved, then asked for
		r, err = c.Do(ctx, Request{Op: OpFidelity, Scans: k})
		if err != nil || r.Current != "scan5" {
			t.Errorf("fidelity %d: %+v, %v", k, r, err)
		}
	}
	for _, bad := range []Request{{Op: OpFidelity, Scans: 11}, {Op: "format the disk"}} {
		if r, err := c.Do(ctx, bad); err == nil || !r.Refused {
			t.Errorf("%+v: %+v, %v", bad, r, err)
		}
	}
}

// What arrives on the wire, byte for byte, as the package comment has it.
func TestWire(t *testing.T) {
	s, _ := serve(t)
	for _, c := range []struct{ send, want string }{
		{`{"v":1,"op":"fidelity","scans":5}`, `{"v":1,"current":"scan5"}`},
		{`{"v":1,"op":"fidelity","new field":true}`, `{"v":1,"current":"scan5"}`},
		{`{"v":2,"op":"fidelity"}`, `{"v":1,"error":"the daemon speaks version 1 of the control protocol, not 2: use the pipefs that mounted","refused":true}`},
		{`{}`, `{"v":1,"error":"the daemon speaks version 1 of the control protocol, not 0: use the pipefs that mounted","refused":true}`},
		{`what`, `{"v":1,"error":"the request cannot be read: invalid character 'w' looking for beginning of value","refused":true}`},
	} {
		conn, err := net.Dial("unix", s.listener.path)
		testenv.Must(t, err)
		fmt.Fprintln(conn, c.send)
		got, err := io.ReadAll(conn)
		conn.Close()
		if err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%s\n got %s (%v)\nwant %s", c.send, got, err, c.want)
		}
	}
}

func TestOthersAreRefused(t *testing.T) {
	s, c := serve(t)
	s.allowed = func(uint32) bool { return false }
	r, err := c.Do(t.Context(), Request{Op: OpFidelity, Scans: 1})
	if err == nil || !r.Denied || !strings.Contains(err.Error(), "may not control") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.Do(t.Context(), Request{Op: OpStats}); err == nil {
		t.Errorf("stats were told: %+v", r)
	}
}

func TestLongRequestEnds(t *testing.T) {
	s, c := serve(t)
	conn, err := net.Dial("unix", s.listener.path)
	testenv.Must(t, err)
	defer conn.Close()
	// without a newline, more than it will read: it hangs up
	_, _ = conn.Write(make([]byte, 1<<20))
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := bufio.NewReader(conn).ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Do(t.Context(), Request{Op: OpStats}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestDaemonIsTheServer(t *testing.T) {
	_, c := serve(t)
	d, err := c.Daemon(t.Context())
	testenv.Must(t, err)
	defer d.Close()
	if d.PID != os.Getpid() {
		t.Errorf("process %d, want %d", d.PID, os.Getpid())
	}
	if d.Wait(10 * time.Millisecond) {
		t.Error("this process has ended, it says")
	}
}

// The daemon of the next mount takes the socket over, and the former one, which
// still serves open files, must not remove it when it ends.
func TestTakeOver(t *testing.T) {
	first, c := serve(t)
	f := &fake{}
	f.scans.Store(3)
	second, err := Serve(first.listener.path, f.handlers(), slog.New(slog.DiscardHandler))
	testenv.Must(t, err)
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	r, err := c.Do(context.Background(), Request{Op: OpFidelity})
	if err != nil || r.Current != "scan3" {
		t.Errorf("%+v, %v", r, err)
	}
	second.Close()
	if _, err := os.Lstat(first.listener.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := c.Do(t.Context(), Request{Op: OpStats}); err == nil {
		t.Error("somebody still answers")
	}
}

func TestSocketPath(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	a, err := Socket("/mnt/a")
	if err != nil || filepath.Dir(a) != filepath.Join(run, "pipefs") {
		t.Errorf("%s, %v", a, err)
	}
	again, _ := Socket("/mnt/a")
	b, _ := Socket("/mnt/b")
	if a != again || a == b {
		t.Errorf("%s, %s, %s", a, again, b)
	}
	t.Setenv("XDG_RUNTIME_DIR", "/tmp/"+strings.Repeat("long", 30))
	if long, err := Socket("/mnt/a"); err != nil || len(long) > maxPath || !strings.HasPrefix(long, "/tmp/pipefs-") {
		t.Errorf("%s, %v", long, err)
	}
}

func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := Private(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
	open := filepath.Join(dir, "open")
	testenv.Must(t, os.Mkdir(open, 0o755))
	link := filepath.Join(dir, "link")
	testenv.Must(t, os.Symlink(filepath.Join(dir, "new"), link))
	file := filepath.Join(dir, "file")
	testenv.Must(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{open, link, file} {
		if err := Private(path); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
	if os.Geteuid() == 0 {
		theirs := filepath.Join(dir, "theirs")
		testenv.Must(t, errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65534, -1)))
		if err := Private(theirs); err == nil {
			t.Error("somebody else's directory was taken")
		}
	}
}

// Where the usual directory in /tmp is somebody else's, a private one is found all the
// same, and found again.
func TestTempDir(t *testing.T) {
	uid := 1<<30 + os.Getpid() // nobody's
	usual := inTmp(uid)
	t.Cleanup(func() { os.Remove(usual) })
	if dir, err := tempDir(uid, os.Geteuid()); err != nil || dir != usual {
		t.Fatalf("%s, %v", dir, err)
	}
	testenv.Must(t, os.Chmod(usual, 0o755))
	other, err := tempDir(uid, os.Geteuid())
	if err != nil || other == usual {
		t.Fatalf("%s, %v", other, err)
	}
	t.Cleanup(func() { os.Remove(other) })
	if again, err := tempDir(uid, os.Geteuid()); err != nil || again != other {
		t.Errorf("%s, then %s, %v", other, again, err)
	}
	if err := avoided(filepath.Join(other, "x.sock"), uid); err == nil || !strings.Contains(err.Error(), usual) {
		t.Errorf("avoided because of %v", err)
	}
	if err := avoided(filepath.Join(usual, "x.sock"), uid); err != nil {
		t.Error(err)
	}
}

func TestFindNeedsAMount(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find(dir); err == nil || !strings.Contains(err.Error(), "is not a pipefs mount") {
		t.Errorf("%v", err)
	}
	if _, err := Find(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("%v", err)
	}
}

// A holder holds until it closes the connection, and no longer than the server is there.
func TestHold(t *testing.T) {
	s, c := serve(t)
	if _, r, err := c.Hold(t.Context(), Request{}); err == nil || !r.Refused || r.Ending {
		t.Errorf("a mount that is not shared: %+v, %v", r, err)
	}
	var n atomic.Int64
	refuse := error(nil)
	s.handlers.Hold = func(key string, linger time.Duration) (func(), error) {
		if key != "k" || linger != MaxLinger*time.Second {
			t.Errorf("key %q, %v", key, linger)
		}
		n.Add(1)
		return func() { n.Add(-1) }, refuse
	}
	request := Request{Key: "k", Linger: 1 << 60}
	first, r, err := c.Hold(t.Context(), request)
	if err != nil || r.Mount != "/mnt" || r.PID != os.Getpid() {
		t.Fatalf("%+v, %v", r, err)
	}
	second, _, err := c.Hold(t.Context(), request)
	testenv.Must(t, err)
	defer second.Close()
	fmt.Fprintln(first, "more than was asked for")
	first.Close()
	testenv.EventuallyIs(t, "one is gone, and one is there", func() bool { return n.Load() == 1 })
	refuse = ErrEnding
	if _, r, err := c.Hold(t.Context(), request); err == nil || !r.Ending {
		t.Errorf("a mount that ends: %+v, %v", r, err)
	}
	n.Add(-1) // who is refused has nothing to release
	testenv.Must(t, s.Close())
	if n.Load() != 0 {
		t.Errorf("%d holders after Close", n.Load())
	}
	if b := make([]byte, 1); second.SetReadDeadline(time.Now().Add(time.Minute)) == nil {
		if _, err := second.Read(b); !errors.Is(err, io.EOF) {
			t.Errorf("the holder sees %v", err)
		}
	}
}
