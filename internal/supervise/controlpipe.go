package supervise

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// environment is the variable that makes a process the daemon of a supervisor.
const environment = "_PIPEFS_SUPERVISED"

// Handed is what a supervisor hands to its daemon.
type Handed struct {
	Connection  *os.File // of the mount to the kernel
	ReadAhead   *os.File // of the file that says how much the kernel reads ahead; nil where it takes a permission
	Journal     *os.File // nil where no daemon follows the first one
	ControlPipe *ControlPipe
	// NoAbort: nobody can end the connection, see [mounts.Place.Abort].
	NoAbort bool
	// Suspects: daemons died of what they did; see package fs.
	Suspects bool
}

// files are the descriptors of a child. The variable has a letter for each, in their order,
// and one for each flag.
func (h *Handed) files(pipe *os.File) (files []*os.File, env string) {
	letters := ""
	add := func(letter string, f *os.File) {
		if f != nil {
			files, letters = append(files, f), letters+letter
		}
	}
	add("c", h.Connection)
	add("p", pipe)
	add("j", h.Journal)
	add("r", h.ReadAhead)
	if h.NoAbort {
		letters += "n"
	}
	if h.Suspects {
		letters += "s"
	}
	return files, environment + "=" + letters
}

// Take is what this process was handed; nil where it has no supervisor. It may be called
// once.
func Take() (*Handed, error) {
	text := os.Getenv(environment)
	_ = os.Unsetenv(environment)
	if text == "" {
		return nil, nil
	}
	h := &Handed{}
	var pipe *os.File
	fd := FirstFile
	for _, letter := range text {
		var to **os.File
		switch letter {
		case 'c':
			to = &h.Connection
		case 'p':
			to = &pipe
		case 'j':
			to = &h.Journal
		case 'r':
			to = &h.ReadAhead
		case 'n':
			h.NoAbort = true
			continue
		case 's':
			h.Suspects = true
			continue
		default:
			return nil, fmt.Errorf("%s=%q: unknown letter %q", environment, text, letter)
		}
		unix.CloseOnExec(fd)
		*to = os.NewFile(uintptr(fd), string(letter))
		fd++
	}
	if h.Connection == nil || pipe == nil {
		return nil, fmt.Errorf("%s=%q: no connection or no pipe", environment, text)
	}
	defer pipe.Close()
	conn, err := net.FileConn(pipe)
	if err != nil {
		return nil, fmt.Errorf("the pipe of the supervisor: %w", err)
	}
	h.ControlPipe = newControlPipe(conn)
	return h, nil
}

// ControlPipe is one end of what joins a daemon and its supervisor. The methods of nil, which a
// daemon without a supervisor has, do nothing.
type ControlPipe struct {
	conn net.Conn
	// asked gets a value each time that the other side asks: the daemon to stop, the supervisor
	// to end the mount, and by a second time to do so at once. lost is closed when the other
	// side is gone.
	asked, lost chan struct{}
}

func newControlPipe(conn net.Conn) *ControlPipe {
	l := &ControlPipe{conn: conn, asked: make(chan struct{}, 2), lost: make(chan struct{})}
	go l.read()
	return l
}

func (l *ControlPipe) read() {
	b := make([]byte, 1)
	for {
		if _, err := l.conn.Read(b); err != nil {
			close(l.lost)
			return
		}
		select {
		case l.asked <- struct{}{}:
		default: // twice is as much as can be asked
		}
	}
}

// pair makes both ends: the supervisor's, and the file that its child is given.
func pair() (*ControlPipe, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return newControlPipe(conn), theirs, nil
}

// Ask asks the other side. It returns false where that is gone.
func (l *ControlPipe) Ask() bool {
	if l == nil {
		return false
	}
	_, err := l.conn.Write([]byte{1})
	return err == nil
}

// Asked gets a value each time that the other side asks.
func (l *ControlPipe) Asked() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.asked
}

// Lost is closed when the other side is gone.
func (l *ControlPipe) Lost() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.lost
}

// Close lets the other side see that this one is gone.
func (l *ControlPipe) Close() error { return l.conn.Close() }
