package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxRequest = 64 << 10 // bytes
	// patience with a client that connects and then says nothing
	patience = 5 * time.Second
)

// Handlers is what the daemon can be asked. They are called from several
// goroutines.
type Handlers struct {
	Stats func() Stats
	// SetFidelity moves `current` to that many scans.
	SetFidelity func(scans int) error
	// Current is the view that `current` points to.
	Current func() string
}

// Server answers at a socket.
type Server struct {
	path     string
	dev, ino uint64 // of the socket's file, to know it again
	listener *net.UnixListener
	handlers Handlers
	log      *slog.Logger
	allowed  func(uid uint32) bool
	running  sync.WaitGroup
}

// Serve listens at path and answers until Close. A socket that another daemon
// left there, or still uses for a mount that was lazily unmounted, is taken over.
func Serve(path string, h Handlers, log *slog.Logger) (*Server, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// Close removes it, unless it is somebody else's by then.
	listener.SetUnlinkOnClose(false)
	s := &Server{path: path, listener: listener, handlers: h, log: log, allowed: func(uid uint32) bool {
		return uid == 0 || uid == uint32(os.Geteuid())
	}}
	if err := s.identify(); err != nil {
		listener.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s.running.Go(s.accept)
	return s, nil
}

func (s *Server) identify() error {
	var st unix.Stat_t
	if err := unix.Lstat(s.path, &st); err != nil {
		return err
	}
	s.dev, s.ino = st.Dev, st.Ino
	// for those who share the directory after all, such as a bind mount of it
	return os.Chmod(s.path, 0o600)
}

// Path of the socket.
func (s *Server) Path() string { return s.path }

// Close stops answering, waits for answers under way, and removes the socket.
func (s *Server) Close() error {
	var st unix.Stat_t
	if unix.Lstat(s.path, &st) == nil && st.Dev == s.dev && st.Ino == s.ino {
		_ = os.Remove(s.path)
	}
	err := s.listener.Close()
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, most likely: not for ever
			s.log.Warn("control socket", "cause", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.running.Go(func() {
			defer conn.Close()
			if err := s.serve(conn); err != nil {
				s.log.Warn("control socket", "cause", err)
			}
		})
	}
}

func (s *Server) serve(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	cred, err := peer(conn)
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil {
		// Somebody looked whether we are alive. That is none of the log's business.
		return nil
	}
	reply := s.answer(line, cred.Uid)
	reply.V = Version
	return json.NewEncoder(conn).Encode(reply)
}

func (s *Server) answer(line []byte, uid uint32) Reply {
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return Reply{Refused: true, Error: fmt.Sprintf("the request cannot be read: %v", err)}
	}
	switch {
	case !s.allowed(uid):
		return Reply{Denied: true, Error: fmt.Sprintf("user %d may not control this mount: only user %d and root may", uid, os.Geteuid())}
	case r.V != Version:
		return Reply{Refused: true, Error: fmt.Sprintf("the daemon speaks version %d of the control protocol, not %d: use the pipefs that mounted", Version, r.V)}
	}
	switch r.Op {
	case OpStats:
		stats := s.handlers.Stats()
		return Reply{Stats: &stats}
	case OpFidelity:
		if r.Scans != 0 {
			if err := s.handlers.SetFidelity(r.Scans); err != nil {
				return Reply{Refused: true, Error: err.Error()}
			}
			s.log.Info("fidelity moved", "current", s.handlers.Current(), "by_uid", uid)
		}
		return Reply{Current: s.handlers.Current()}
	}
	return Reply{Refused: true, Error: fmt.Sprintf("the daemon knows no operation %q", r.Op)}
}
