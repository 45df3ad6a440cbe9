package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
		dir, _ := os.Getwd()
		sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
		fmt.Printf("environment: %q, directory: %s, leader: %v\n", os.Getenv(readyVariable), dir, int(sid) == os.Getpid())
	case "fail":
		p.Fail(errors.New("no such luck"), 32)
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
	testenv.Must(t, err)
	defer log.Close()
	err = StartDaemon(ctx, Child{
		Args: []string{"pipefs-test", "child", act}, Log: log,
		Patience: patience, Notice: 100 * time.Millisecond,
		Say:  func(s string) { said = append(said, s) },
		Tell: func(s string) { said = append(said, "note: "+s) },
	})
	text, _ := os.ReadFile(log.Name())
	for deadline := time.Now().Add(time.Minute); act == "ready" && !bytes.HasSuffix(text, []byte("\n")) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
		text, _ = os.ReadFile(log.Name())
	}
	return said, string(text), err
}

func TestReady(t *testing.T) {
	said, log, err := start(t.Context(), t, "ready", 10*time.Second)
	if err != nil || !slices.Contains(said, "note: a word") {
		t.Errorf("said %q, %v", said, err)
	}
	if want := "environment: \"\", directory: /, leader: true\n"; log != want {
		t.Errorf("log %q, want %q", log, want)
	}
}

func TestFailures(t *testing.T) {
	for act, want := range map[string]string{
		"fail":   "no such luck",
		"silent": "the daemon ended before the mount answered: exit status 3; its last words:\nlast words",
		"panic":  "panic: at once",
		"killed": "signal: killed",
	} {
		_, _, err := start(t.Context(), t, act, time.Minute)
		var failure *Failure
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &failure) != (act == "fail") || failure != nil && failure.Code != 32 {
			t.Errorf("%s: %v, want %q", act, err, want)
		}
	}
}

func TestPatience(t *testing.T) {
	said, _, err := start(t.Context(), t, "slow", 2*time.Second)
	if err == nil || !strings.Contains(err.Error(), "while waiting for a slow disk") {
		t.Error(err)
	}
	if len(said) < 2 || said[len(said)-1] != "a slow disk" {
		t.Errorf("said %q", said)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := start(ctx, t, "slow", time.Minute)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
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
	testenv.Must(t, err)
	read.Close()
	p := &Parent{pipe: write}
	if err := p.Ready(); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
	p.Fail(errors.New("too late"), 1)
}

func TestNobodyWaits(t *testing.T) {
	for _, fd := range []string{"", "x", "1", "999"} {
		t.Setenv(readyVariable, fd)
		p := Waiting()
		if p != nil {
			t.Errorf("%q: somebody waits", fd)
		}
		p.Status("nothing")
		p.Fail(errors.New("nothing"), 1)
		if err := p.Ready(); err != nil {
			t.Error(err)
		}
	}
}
