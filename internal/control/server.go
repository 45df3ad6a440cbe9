package control

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
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
	listener *Listener
	handlers Handlers
	log      *slog.Logger
	allowed  func(uid uint32) bool
	running  sync.WaitGroup
}

// Serve listens at path and answers until Close; see [Listen].
func Serve(path string, h Handlers, log *slog.Logger) (*Server, error) {
	listener, err := Listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Server{listener: listener, handlers: h, log: log, allowed: Allowed}
	s.running.Go(s.accept)
	return s, nil
}

// Close stops answering, waits for answers under way, and removes the socket.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	failed := func(err error) { s.log.Warn("control socket", "cause", err) }
	for {
		conn := s.listener.Accept(failed)
		if conn == nil {
			return
		}
		s.running.Go(func() {
			defer conn.Close()
			if err := s.serve(conn); err != nil {
				failed(err)
			}
		})
	}
}

func (s *Server) serve(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	cred, err := Peer(conn)
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
		return Reply{Denied: true, Error: Denied(uid)}
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
