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

	"github.com/pipefs/pipefs/internal/account"
)

const (
	maxRequest = 64 << 10 // bytes
	// patience with a client that connects and then says nothing
	patience = 5 * time.Second
	// MaxTakeover is how long another program may take to serve a mount.
	MaxTakeover = 5 * time.Minute
)

// Handlers is what the daemon can be asked. They are called from several
// goroutines.
type Handlers struct {
	Stats func() Stats
	// SetFidelity moves `current` to that many scans.
	SetFidelity func(scans int) error
	// Current is the view that `current` points to.
	Current func() string
	// View returns the name under which the mount shows a view, or a link, and a note on its
	// samples; and an error for what is none.
	View func(name string) (view, note string, err error)
	// Why returns why the last request for a path failed, or "" if that is not known.
	Why func(path string) string
	// Explain tells how the file at a path below the mount is made.
	Explain func(path string) (Explanation, error)
	// Refresh begins to look for what is newer than what is shown, or tells how far the one of that
	// number is. nil where there is nothing to look for.
	Refresh func(number int) (Refresh, error)
	// Pprof takes a profile of the daemon.
	Pprof func(name string, seconds int) ([]byte, error)
	// Trace records requests for some seconds, and tells those from a number on.
	Trace func(since int64) account.Taken
	// Config tells the settings of the daemon.
	Config func() (json.RawMessage, error)
	// Hold counts one more holder, until release is called. The error is [ErrEnding] where
	// the mount has begun to end. nil where the mount is not shared.
	Hold func(key string, linger time.Duration) (release func(), err error)
	// Takeover has another program serve the mount, and returns how long it was not served.
	Takeover func(program string) (paused time.Duration, err error)
	// Forward answers what none of those above does; nil refuses it.
	Forward func(Request) Reply
	// Mount is the directory, for holders.
	Mount string
	// User may ask, as well as root and the user of this process; 0 is nobody else.
	User int
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
	return ServeAt(listener, h, log), nil
}

// ServeAt answers at a socket until Close.
func ServeAt(listener *Listener, h Handlers, log *slog.Logger) *Server {
	allowed := func(uid uint32) bool {
		return uid == 0 || uid == uint32(os.Geteuid()) || h.User != 0 && uid == uint32(h.User)
	}
	s := &Server{listener: listener, handlers: h, log: log, allowed: allowed, held: map[*net.UnixConn]bool{}}
	s.running.Go(s.accept)
	return s
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
	if err := conn.SetDeadline(time.Now().Add(MaxTakeover)); err != nil {
		return err
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
		return Reply{Denied: true, Error: denied(uid, max(s.handlers.User, os.Geteuid()))}, nil
	case r.V != Version:
		return refuse(fmt.Errorf("the daemon speaks version %d of the control protocol, not %d: use the pipefs that mounted", Version, r.V))
	}
	h := s.handlers
	switch {
	case r.Op == OpStats && h.Stats != nil:
		stats := h.Stats()
		if !r.History {
			stats.History = nil
		}
		return Reply{Stats: &stats}, nil
	case r.Op == OpFidelity && h.SetFidelity != nil:
		if r.Scans != 0 {
			if err := h.SetFidelity(r.Scans); err != nil {
				return refuse(err)
			}
			s.log.Info("fidelity moved", "current", h.Current(), "by_uid", uid)
		}
		return Reply{Current: h.Current()}, nil
	case r.Op == OpView && h.View != nil:
		view, note, err := h.View(r.View)
		if err != nil {
			return refuse(err)
		}
		return Reply{View: view, Note: note}, nil
	case r.Op == OpWhy && h.Why != nil:
		return Reply{Cause: h.Why(r.Path)}, nil
	case r.Op == OpExplain && h.Explain != nil:
		e, err := h.Explain(r.Path)
		if err != nil {
			return refuse(err)
		}
		return Reply{Explained: &e}, nil
	case r.Op == OpRefresh && h.Refresh != nil:
		refresh, err := h.Refresh(r.Refresh)
		if err != nil {
			return refuse(err)
		}
		return Reply{Refresh: &refresh}, nil
	case r.Op == OpPprof && h.Pprof != nil:
		profile, err := h.Pprof(r.Profile, r.Seconds)
		if err != nil {
			return refuse(err)
		}
		return Reply{Profile: profile}, nil
	case r.Op == OpTrace && h.Trace != nil:
		taken := h.Trace(r.Since)
		return Reply{Trace: &taken}, nil
	case r.Op == OpConfig && h.Config != nil:
		config, err := h.Config()
		if err != nil {
			return refuse(err)
		}
		return Reply{Config: config}, nil
	case r.Op == OpHold && h.Hold != nil:
		release, err := h.Hold(r.Key, time.Duration(min(max(r.Linger, 0), MaxLinger))*time.Second)
		if err != nil {
			return refuse(err)
		}
		return Reply{Mount: h.Mount, PID: os.Getpid()}, release
	case r.Op == OpHold:
		return refuse(errors.New("this mount is not shared: it stays until somebody unmounts it"))
	case r.Op == OpTakeover && h.Takeover != nil:
		paused, err := h.Takeover(r.Program)
		if err != nil {
			return refuse(err)
		}
		return Reply{Paused: paused.Seconds()}, nil
	case r.Op == OpTakeover:
		return refuse(errors.New("this mount is not supervised, and its program cannot be replaced: unmount it, and mount with --supervise"))
	case h.Forward != nil:
		return h.Forward(r), nil
	}
	return refuse(fmt.Errorf("the daemon knows no operation %q", r.Op))
}
