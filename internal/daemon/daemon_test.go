package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/testenv"
)

// The test's own program is the child: what it does is its second argument.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		child(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(act string) {
	p := Waiting()
	switch act {
	case "ready":
		p.Status("nothing")
		p.Note("a word")
		if err := p.Ready(); err != nil {
			os.Exit(9)
		}
		time.Sleep(50 * time.Millisecond)
		fmt.Println("environment:", os.Getenv(environment))
		dir, _ := os.Getwd()
		sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
		fmt.Println("directory:", dir, "leader:", int(sid) == os.Getpid())
	case "fail":
		p.Fail(exit.Errorf(exit.Mount, "no such luck"))
	case "silent":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	case "panic":
		panic("at once")
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "slow":
		p.Status("a slow disk")
		time.Sleep(time.Minute)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		p.Status("doomsday")
		time.Sleep(time.Minute)
	}
}

// start starts a child and returns what was said, its log, and its error.
func start(ctx context.Context, t *testing.T, act string, patience time.Duration) (said []string, logged string, err error) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	err = Start(ctx, Child{
		Args: []string{"pipefs-test", "child", act}, Log: log,
		Patience: patience, Notice: 100 * time.Millisecond,
		Say:  func(s string) { said = append(said, s) },
		Tell: func(s string) { said = append(said, "note: "+s) },
	})
	if act == "ready" {
		time.Sleep(300 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	return said, string(text), err
}

func TestReady(t *testing.T) {
	said, log, err := start(t.Context(), t, "ready", 10*time.Second)
	if err != nil || !slices.Contains(said, "note: a word") {
		t.Errorf("said %q, %v", said, err)
	}
	if want := "environment: \ndirectory: / leader: true\n"; log != want {
		t.Errorf("log %q, want %q", log, want)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		act, want string
		code      exit.Code
	}{
		{"fail", "no such luck", exit.Mount},
		{"silent", "the daemon ended before the mount answered: exit status 3; its last words:\nlast words", exit.Internal},
		{"panic", "panic: at once", exit.Internal},
		{"killed", "signal: killed", exit.Internal},
	} {
		_, _, err := start(t.Context(), t, c.act, 10*time.Second)
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Of(err) != c.code {
			t.Errorf("%s: %v (code %d), want %q (code %d)", c.act, err, exit.Of(err), c.want, c.code)
		}
	}
}

func TestPatience(t *testing.T) {
	said, _, err := start(t.Context(), t, "slow", 2*time.Second)
	if err == nil || !strings.Contains(err.Error(), "while waiting for a slow disk") || exit.Of(err) != exit.Mount {
		t.Errorf("%v (code %d)", err, exit.Of(err))
	}
	if len(said) < 2 || said[len(said)-1] != "a slow disk" {
		t.Errorf("said %q", said)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := start(ctx, t, "slow", time.Minute)
	if exit.Of(err) != exit.Interrupted {
		t.Errorf("%v (code %d)", err, exit.Of(err))
	}
}

// A child that does not want to end is made to.
func TestDeaf(t *testing.T) {
	testenv.Slow(t)
	started := time.Now()
	_, _, err := start(t.Context(), t, "deaf", 300*time.Millisecond)
	if took := time.Since(started); err == nil || took > 15*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

func TestReadyFailsWithoutParent(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	p := &Parent{pipe: write}
	if err := p.Ready(); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
	p.Fail(errors.New("too late"))
}

func TestNobodyWaits(t *testing.T) {
	for _, fd := range []string{"", "x", "1", "999"} {
		t.Setenv(environment, fd)
		p := Waiting()
		if p != nil {
			t.Errorf("%q: somebody waits", fd)
		}
		p.Status("nothing")
		p.Fail(errors.New("nothing"))
		if err := p.Ready(); err != nil {
			t.Error(err)
		}
	}
}

func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(Ready); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@pipefs-test-" + fmt.Sprint(os.Getpid())} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		t.Setenv("NOTIFY_SOCKET", name)
		if err := Notify(Ready); err != nil {
			t.Error(err)
		}
		b := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := conn.Read(b); err != nil || string(b[:n]) != "READY=1" {
			t.Errorf("%s: got %q, %v", name, b[:n], err)
		}
	}
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/socket")
	if err := Notify(Ready); err == nil {
		t.Error("a missing socket is no error")
	}
}
