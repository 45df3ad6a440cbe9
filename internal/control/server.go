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
	// View returns the name under which the mount shows a view, or a link, and an error
	// for what is none.
	View func(name string) (string, error)
	// Hold counts one more holder, until release is called. The error is [ErrEnding] where
	// the mount has begun to end. nil where the mount is not shared.
	Hold func(key string, linger time.Duration) (release func(), err error)
}

// ErrEnding refuses a holder: the mount has begun to end.
var ErrEnding = errors.New("the mount has begun to end")

// Server answers at a socket.
type Server struct {
	listener *Listener
	handlers Handlers
	log      *slog.Logger
	allowed  func(uid uint32) bool
	running  sync.WaitGroup
	mu       sync.Mutex
	held     map[*net.UnixConn]bool // nil after Close
}

// Serve listens at path and answers until Close; see [Listen].
func Serve(path string, h Handlers, log *slog.Logger) (*Server, error) {
	listener, err := Listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Server{listener: listener, handlers: h, log: log, allowed: Allowed, held: map[*net.UnixConn]bool{}}
	s.running.Go(s.accept)
	return s, nil
}

// Close stops answering, waits for answers under way, removes the socket, and lets go of
// all holders.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	for conn := range s.held {
		_ = conn.CloseRead() // whoever waits for its end sees it
	}
	s.held = nil
	s.mu.Unlock()
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
	reply, release := s.answer(line, cred.Uid)
	reply.V = Version
	err = json.NewEncoder(conn).Encode(reply)
	if release == nil {
		return err
	}
	defer release()
	if err == nil {
		s.outlast(conn)
	}
	return nil
}

// outlast returns when a holder has closed its connection, or Close was called.
func (s *Server) outlast(conn *net.UnixConn) {
	s.mu.Lock()
	if s.held == nil {
		s.mu.Unlock()
		return
	}
	s.held[conn] = true
	s.mu.Unlock()
	if err := conn.SetDeadline(time.Time{}); err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
	s.mu.Lock()
	delete(s.held, conn)
	s.mu.Unlock()
}

// answer makes the reply. Where release is not nil, the reply is that to a holder, and
// release is called when the holder is gone.
func (s *Server) answer(line []byte, uid uint32) (reply Reply, release func()) {
	refuse := func(err error) (Reply, func()) {
		return Reply{Refused: true, Ending: errors.Is(err, ErrEnding), Error: err.Error()}, nil
	}
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return refuse(fmt.Errorf("the request cannot be read: %w", err))
	}
	switch {
	case !s.allowed(uid):
		return Reply{Denied: true, Error: Denied(uid)}, nil
	case r.V != Version:
		return refuse(fmt.Errorf("the daemon speaks version %d of the control protocol, not %d: use the pipefs that mounted", Version, r.V))
	}
	switch r.Op {
	case OpStats:
		stats := s.handlers.Stats()
		return Reply{Stats: &stats}, nil
	case OpFidelity:
		if r.Scans != 0 {
			if err := s.handlers.SetFidelity(r.Scans); err != nil {
				return refuse(err)
			}
			s.log.Info("fidelity moved", "current", s.handlers.Current(), "by_uid", uid)
		}
		return Reply{Current: s.handlers.Current()}, nil
	case OpView:
		view, err := s.handlers.View(r.View)
		if err != nil {
			return refuse(err)
		}
		return Reply{View: view}, nil
	case OpHold:
		if s.handlers.Hold == nil {
			return refuse(errors.New("this mount is not shared: it stays until somebody unmounts it"))
		}
		release, err := s.handlers.Hold(r.Key, time.Duration(min(max(r.Linger, 0), MaxLinger))*time.Second)
		if err != nil {
			return refuse(err)
		}
		return Reply{Mount: s.handlers.Stats().Mount, PID: os.Getpid()}, release
	}
	return refuse(fmt.Errorf("the daemon knows no operation %q", r.Op))
}
