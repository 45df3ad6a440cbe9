package supervise

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/daemon"
)

// environment is the variable that makes a process the daemon of a supervisor.
const environment = "_PIPEFS_SUPERVISED"

// Handed is what a supervisor hands to its daemon.
type Handed struct {
	Connection *os.File // of the mount to the kernel
	ReadAhead  *os.File // of the file that says how much the kernel reads ahead; nil where it takes a permission
	Journal    *os.File
	Leash      *Leash
}

// files are the descriptors of a child, in the order in which Take finds them.
func (h *Handed) files(leash *os.File) (files []*os.File, env string) {
	files = []*os.File{h.Connection, h.Journal, leash}
	if h.ReadAhead != nil {
		files = append(files, h.ReadAhead)
	}
	return files, fmt.Sprintf("%s=%d", environment, len(files))
}

// Take is what this process was handed; nil where it has no supervisor. It may be called
// once.
func Take() (*Handed, error) {
	text := os.Getenv(environment)
	_ = os.Unsetenv(environment)
	if text == "" {
		return nil, nil
	}
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil || n < 3 || n > 4 {
		return nil, fmt.Errorf("what the supervisor handed over: %q", text)
	}
	take := func(i int, name string) *os.File {
		fd := daemon.FirstFile + i
		unix.CloseOnExec(fd)
		return os.NewFile(uintptr(fd), name)
	}
	h := &Handed{Connection: take(0, "connection"), Journal: take(1, "journal")}
	if n == 4 {
		h.ReadAhead = take(3, "read-ahead")
	}
	file := take(2, "leash")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("the leash of the supervisor: %w", err)
	}
	h.Leash = newLeash(conn)
	return h, nil
}

// Leash is one end of what joins a daemon and its supervisor. The methods of nil, which a
// daemon without a supervisor has, do nothing.
type Leash struct {
	conn net.Conn
	// asked is closed when the other side asked: the daemon to stop, the supervisor to end
	// the mount. lost is closed when the other side is gone.
	asked, lost chan struct{}
}

func newLeash(conn net.Conn) *Leash {
	l := &Leash{conn: conn, asked: make(chan struct{}), lost: make(chan struct{})}
	go l.read()
	return l
}

func (l *Leash) read() {
	b := make([]byte, 1)
	for asked := false; ; asked = true {
		if _, err := l.conn.Read(b); err != nil {
			close(l.lost)
			return
		}
		if !asked {
			close(l.asked)
		}
	}
}

// pair makes both ends: the supervisor's, and the file that its child is given.
func pair() (*Leash, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "leash"), os.NewFile(uintptr(fds[1]), "leash")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return newLeash(conn), theirs, nil
}

// Ask asks the other side. It returns false where that is gone.
func (l *Leash) Ask() bool {
	if l == nil {
		return false
	}
	_, err := l.conn.Write([]byte{1})
	return err == nil
}

// Asked is closed when the other side has asked.
func (l *Leash) Asked() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.asked
}

// Lost is closed when the other side is gone.
func (l *Leash) Lost() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.lost
}

// Close lets the other side see that this one is gone.
func (l *Leash) Close() error { return l.conn.Close() }
