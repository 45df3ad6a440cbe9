package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// sharing is a machine for shared mounts: a dataset, and a runtime directory in which
// nothing may be left.
type sharing struct {
	t            *testing.T
	env          []string
	dataset, run string
	binary       string
}

func newSharing(t *testing.T) *sharing {
	testenv.Mounts(t)
	run, err := os.MkdirTemp("/tmp", "pf") // sockets need short paths
	testenv.Must(t, err)
	s := &sharing{t: t, run: run, dataset: t.TempDir(), binary: testmount.Binary(t)}
	s.env = append(testmount.Home(t), "XDG_RUNTIME_DIR="+run)
	write(t, s.dataset, testenv.Picture(t, "161x121.jpg"), "a.jpg")
	t.Cleanup(func() {
		s.nothing()
		found, err := mounts.Within(run)
		for _, m := range found {
			t.Errorf("left behind: the mount %s", m.Mountpoint)
			err = errors.Join(err, mounts.Unmount(m.Mountpoint, true))
		}
		testenv.Must(t, errors.Join(err, os.RemoveAll(run)))
	})
	return s
}

// nothing waits until nothing is left of any mount.
func (s *sharing) nothing() {
	s.t.Helper()
	testenv.Eventually(s.t, func() error {
		left, err := filepath.Glob(filepath.Join(s.run, "pipefs", "*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %v", left)
		}
		return err
	})
}

// holder is one who holds a shared mount.
type holder struct {
	Mount, Socket string
	PID           int
	conn          *os.File
}

func (h *holder) close() { h.conn.Close() }

// read reads the picture through the mount.
func (h *holder) read() error {
	_, err := os.ReadFile(filepath.Join(h.Mount, "original/a.jpg"))
	return err
}

// hold runs the command, which hands the connection on. The error holds what it said.
func (s *sharing) hold(args ...string) (*holder, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	cmd := exec.Command(s.binary, append([]string{"mount", "--shared", "--holder=3", "--no-background"}, args...)...)
	cmd.Env, cmd.ExtraFiles = s.env, []*os.File{theirs}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	line, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, rn, _, _, err := unix.Recvmsg(pair[0], line, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	h := &holder{}
	if err := json.Unmarshal(line[:n], h); err != nil {
		return nil, fmt.Errorf("%w: %s", err, line[:n])
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	h.conn = os.NewFile(uintptr(fds[0]), "held")
	return h, nil
}

func (s *sharing) mustHold(args ...string) *holder {
	s.t.Helper()
	h, err := s.hold(args...)
	testenv.Must(s.t, err)
	return h
}

// kill kills a daemon, and waits until its mount is dead.
func (s *sharing) kill(h *holder) {
	s.t.Helper()
	testenv.Must(s.t, syscall.Kill(h.PID, syscall.SIGKILL))
	testenv.EventuallyIs(s.t, "the mount is dead", func() bool { return mounts.Dead(mounts.Probe(h.Mount)) })
}

// Eight who ask at once share one daemon, which ends with the last of them.
func TestSharedByMany(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	holders := make([]*holder, 8)
	var all sync.WaitGroup
	for i := range holders {
		all.Go(func() {
			var err error
			if holders[i], err = s.hold(s.dataset); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	other := s.mustHold("--fidelity=3", s.dataset)
	if other.PID == holders[0].PID || other.Mount == holders[0].Mount {
		t.Errorf("other options, and the same mount: %+v", other)
	}
	other.close()
	child := exec.Command("sleep", "1000") // a holder that was forked, and is killed
	child.ExtraFiles = []*os.File{holders[0].conn}
	testenv.Must(t, child.Start())
	for i, h := range holders {
		if h.PID != holders[0].PID || h.Mount != holders[0].Mount {
			t.Errorf("%+v and %+v", h, holders[0])
		}
		h.close()
		if err := h.read(); err != nil {
			t.Errorf("while %d hold it: %v", len(holders)-i, err)
		}
	}
	testenv.Must(t, child.Process.Kill())
	_ = child.Wait()
	s.nothing()
	testenv.EventuallyIs(t, "the daemon ends", func() bool { return syscall.Kill(holders[0].PID, 0) != nil })
}

// A daemon that was killed leaves a dead mount. The next who asks for the same takes its
// place, and the next who asks for anything takes it away.
func TestSharedDaemonIsKilled(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	first, other := s.mustHold(s.dataset), s.mustHold("--fidelity=3", s.dataset)
	defer first.close()
	defer other.close()
	s.kill(first)
	s.kill(other)
	again := s.mustHold(s.dataset)
	if again.Mount != first.Mount || again.PID == first.PID {
		t.Errorf("%+v after %+v", again, first)
	}
	if err := again.read(); err != nil {
		t.Error(err)
	}
	if m, err := mounts.At(other.Mount); err != nil || m != nil {
		t.Errorf("the other dead mount is still there: %v, %v", m, err)
	}
	again.close()
}

// Whoever holds a mount can read it, however many come and go. A kill may take a mount from
// its holders, and from nobody who comes after.
func TestSharedRaces(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	seed := testenv.Seed(t)
	var kills, done atomic.Int64 // of daemons
	var all sync.WaitGroup
	for who := range 6 {
		random := rand.New(rand.NewPCG(seed, uint64(who)))
		all.Go(func() {
			for range 8 {
				ended, begun := done.Load(), kills.Load()
				h, err := s.hold(s.dataset)
				if err == nil {
					err = h.read()
				}
				switch {
				case err != nil && ended == begun && kills.Load() == begun:
					t.Errorf("nobody was killed, and %v", err)
				case h == nil:
					continue
				case random.IntN(8) == 0:
					kills.Add(1)
					_ = syscall.Kill(h.PID, syscall.SIGKILL)
					for syscall.Kill(h.PID, 0) == nil {
						time.Sleep(time.Millisecond)
					}
					done.Add(1)
				}
				h.close()
			}
		})
	}
	all.Wait()
	s.mustHold(s.dataset).close() // takes away what the last kill has left
}

// Where MNT is given, it is one mount, and nobody else's.
func TestSharedElsewhere(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	mnt := t.TempDir()
	h := s.mustHold(s.dataset, mnt)
	again := s.mustHold(s.dataset, mnt)
	if h.Mount != mnt || again.PID != h.PID {
		t.Errorf("%+v, %+v", h, again)
	}
	again.close()
	if _, err := s.hold("--fidelity=3", s.dataset, mnt); err == nil || !strings.Contains(err.Error(), "mounted with other options") {
		t.Errorf("other options: %v", err)
	}
	h.close()
	testenv.EventuallyIs(t, "the mount goes", func() bool { m, err := mounts.At(mnt); return err == nil && m == nil })
	if _, err := os.Stat(mnt); err != nil {
		t.Errorf("the directory: %v", err)
	}
	testmount.Command(t, s.env, "mount", s.dataset, mnt)
	if _, err := s.hold(s.dataset, mnt); err == nil || !strings.Contains(err.Error(), "this mount is not shared") {
		t.Errorf("an ordinary mount: %v", err)
	}
	testmount.Command(t, s.env, "umount", mnt)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"leave out --foreground", []string{"--foreground", s.dataset}},
		{"there is no dataset or store at", []string{s.dataset + "/none"}},
		{"unknown flag --fidelty", []string{"--fidelty=3", s.dataset}},
		{"neither true nor false", []string{"--shared=yess", s.dataset}},
		{"make it first: mkdir -p", []string{s.dataset, mnt + "/none"}},
	} {
		if _, err := s.hold(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

// The command alone prints the directory, and keeps the mount for one who comes to hold it
// by the control socket.
func TestSharedByOtherPrograms(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	mnt := strings.TrimSpace(testmount.Command(t, s.env, "mount", "--shared", s.dataset))
	socket, err := os.Readlink(filepath.Join(mnt, ".pipefs/control"))
	testenv.Must(t, err)
	ask := func(request string) (net.Conn, string) {
		conn, err := net.Dial("unix", socket)
		testenv.Must(t, err)
		fmt.Fprintln(conn, request)
		reply := make([]byte, 4096)
		n, err := conn.Read(reply)
		testenv.Must(t, err)
		return conn, string(bytes.TrimSpace(reply[:n]))
	}
	conn, reply := ask(`{"v":1,"op":"hold"}`)
	if want := fmt.Sprintf(`{"v":1,"mount":%q,"pid":`, mnt); !strings.HasPrefix(reply, want) {
		t.Errorf("%s, want %s", reply, want)
	}
	for request, want := range map[string]string{
		`{"v":1,"op":"view","view":"scan5"}`:           `{"v":1,"view":"scan5"}`,
		`{"v":1,"op":"view","view":"current"}`:         `{"v":1,"view":"current"}`,
		`{"v":1,"op":"why","path":"original/a.jpg"}`:   `{"v":1}`,
		`{"v":1,"op":"view","view":"scan5-rezise256"}`: `scan5-rezise256\n          ^^^^^^^^^`,
	} {
		c, reply := ask(request)
		c.Close()
		if !strings.Contains(reply, want) {
			t.Errorf("%s: %s, want %s", request, reply, want)
		}
	}
	conn.Close()
	s.nothing()
}

// A shared mount that is supervised outlives its daemon: who holds it holds it, and others
// join it.
func TestSharedSupervised(t *testing.T) {
	t.Parallel()
	s := newSharing(t)
	h := s.mustHold("--supervise", s.dataset)
	for range 2 {
		stats := statsOf(t, h.Mount)
		if stats.Holders == nil || *stats.Holders != 1 || stats.Supervised.PID != h.PID {
			t.Errorf("%+v", stats)
		}
		testenv.Must(t, syscall.Kill(stats.PID, syscall.SIGKILL))
		testenv.Must(t, h.read())
	}
	other := s.mustHold(s.dataset) // supervised or not is the same mount
	if other.PID != h.PID || other.Mount != h.Mount {
		t.Errorf("%+v and %+v", other, h)
	}
	h.close()
	testenv.Must(t, other.read())
	other.close()
	testenv.EventuallyIs(t, "the supervisor ends", func() bool { return syscall.Kill(h.PID, 0) != nil })
}
