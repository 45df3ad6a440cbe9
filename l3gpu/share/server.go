package share

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/transcode"
)

// Options of Serve.
type Options struct {
	// Clients is how many there may be at once.
	Clients int
	// SlotBytes is the size of a slot; see SlotBytes.
	SlotBytes int64
	// GPU opens the GPU when the first client comes, or says why not.
	GPU func() (*l3gpu.Backend, error)
	// Read reads a file of the mount, whose path is relative to its root. It asks whether
	// there is room for so many bytes before it takes memory for them. It is called by
	// several goroutines.
	Read func(ctx context.Context, path string, room func(size int64) error) ([]byte, error)
	// Limits are those of the pictures.
	Limits transcode.Limits
	// Workers is how many files of a batch are read at once. Default: 8.
	Workers int
	Log     *slog.Logger

	// patience is how long connections may take to say what they want, and to take what
	// they asked for. Default: 5 s.
	patience time.Duration
	// allowed says who may connect; tests set it.
	allowed func(uid uint32) bool
}

const (
	// SlotsEach is how many slots a seat has: one to train on, one that is ready, and
	// one that is being decoded to.
	SlotsEach = 3
	// slotUnit is what CUDA hands out memory in. A handle is one of whole blocks, so that
	// slots of whole blocks show a client nothing but themselves.
	slotUnit = 2 << 20

	// maxQueue is how many connections may be open beyond those with a seat.
	maxQueue = 8
)

// SlotBytes is the size of slots for so many clients in so much memory of the GPU; 0 is
// too little.
func SlotBytes(memory int64, clients int) int64 {
	return memory / int64(clients*SlotsEach) / slotUnit * slotUnit
}

// MemoryFor is how much memory of the GPU so many clients take at least.
func MemoryFor(clients int) int64 { return int64(clients) * SlotsEach * slotUnit }

// Server decodes for other processes.
type Server struct {
	o        Options
	listener *control.Listener
	seats    *seats
	stats    stats
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	gate     chan struct{} // one for each connection

	generation  atomic.Uint64
	refusals    sync.Map // kinds that the log has been told of
	closedCalls sync.Once
}

type stats struct{ batches, pictures, bytes, failed atomic.Int64 }

// Stats is what a server has counted.
type Stats struct {
	Clients, Slots           int // at the moment: seats taken, slots in use
	Batches, Pictures, Bytes int64
	Failed                   int64 // pictures and batches that were not decoded
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	clients, slots := s.seats.count()
	return Stats{
		Clients: clients, Slots: slots, Batches: s.stats.batches.Load(), Pictures: s.stats.pictures.Load(),
		Bytes: s.stats.bytes.Load(), Failed: s.stats.failed.Load(),
	}
}

// Serve listens at path and decodes until Close.
func Serve(path string, o Options) (*Server, error) {
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.patience == 0 {
		o.patience = 5 * time.Second
	}
	if o.allowed == nil {
		o.allowed = control.Allowed
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clients < 1 || o.SlotBytes < slotUnit {
		return nil, fmt.Errorf("sharing a GPU: %d clients with slots of %d bytes", o.Clients, o.SlotBytes)
	}
	listener, err := control.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("socket for processes that share the GPU: %w", err)
	}
	s := &Server{o: o, listener: listener, seats: newSeats(o.Clients), gate: make(chan struct{}, o.Clients+maxQueue)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s, nil
}

// Close ends all connections and gives the memory back that no client may have open. A
// second Close does nothing.
func (s *Server) Close() (err error) {
	s.closedCalls.Do(func() {
		err = s.listener.Close()
		s.cancel()
		s.running.Wait()
		if left := s.seats.free(); left > 0 {
			s.o.Log.Info("other processes still have memory of the GPU open; it goes when this one ends", "processes", left)
		}
	})
	return err
}

func (s *Server) accept() {
	failed := func(err error) { s.o.Log.Warn("socket for processes that share the GPU", "cause", err) }
	for {
		conn := s.listener.Accept(failed)
		if conn == nil {
			return
		}
		select {
		case s.gate <- struct{}{}:
		default:
			_ = s.send(conn, refuse(KindFull, "there are too many connections; wait, or mount with a larger --gpu-share"))
			conn.Close()
			continue
		}
		s.running.Go(func() {
			s.serve(conn)
			<-s.gate
		})
	}
}

func (s *Server) serve(conn *net.UnixConn) {
	defer conn.Close()
	who, err := identify(conn)
	if err != nil {
		_ = s.send(conn, refuse(KindDenied, err.Error()))
		return
	}
	defer who.forget()
	if !s.o.allowed(who.uid) {
		_ = s.send(conn, refuse(KindDenied, control.Denied(who.uid)))
		return
	}
	c := &client{server: s, conn: conn, who: who}
	c.run()
}

// told logs the first refusal of each kind: clients try again and again.
func (s *Server) told(who *peer, r *Reply) {
	if _, before := s.refusals.LoadOrStore(r.Kind, nil); !before {
		s.o.Log.Warn("a process may not share the GPU; it has to decode by itself", "pid", who.pid, "cause", r.Error)
	}
}
