package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Listener listens at a socket that only this user and root may connect to.
type Listener struct {
	path     string
	dev, ino uint64 // of the socket's file, to know it again
	listener *net.UnixListener
}

// Listen listens at path. A socket that another daemon left there, or still uses for a
// mount that was lazily unmounted, is taken over.
func Listen(path string) (*Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// Close removes it, unless it is somebody else's by then.
	listener.SetUnlinkOnClose(false)
	l := &Listener{path: path, listener: listener}
	if err := l.identify(); err != nil {
		listener.Close()
		return nil, err
	}
	return l, nil
}

func (l *Listener) identify() error {
	var st unix.Stat_t
	if err := unix.Lstat(l.path, &st); err != nil {
		return err
	}
	l.dev, l.ino = st.Dev, st.Ino
	// for those who share the directory after all, such as a bind mount of it
	return os.Chmod(l.path, 0o600)
}

// Accept waits for the next connection; failed is told of errors that pass. After Close
// it returns nil.
func (l *Listener) Accept(failed func(error)) *net.UnixConn {
	for {
		conn, err := l.listener.AcceptUnix()
		switch {
		case err == nil:
			return conn
		case errors.Is(err, net.ErrClosed):
			return nil
		}
		failed(err) // out of descriptors, most likely: not for ever
		time.Sleep(100 * time.Millisecond)
	}
}

// Close stops listening, and removes the socket.
func (l *Listener) Close() error {
	var st unix.Stat_t
	if unix.Lstat(l.path, &st) == nil && st.Dev == l.dev && st.Ino == l.ino {
		_ = os.Remove(l.path)
	}
	return l.listener.Close()
}

func denied(uid uint32, owner int) string {
	return fmt.Sprintf("user %d may not control this mount: only user %d and root may", uid, owner)
}

// Peer tells who is at the other end of a connection.
func Peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) {
		cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, inner
}
