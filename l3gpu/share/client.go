package share

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/pipefs/pipefs/l3gpu"
)

const (
	maxLine = 1 << 20 // bytes of a request
	// pipelined is how many requests may wait for their turn: decode and release of each
	// slot, and some more.
	pipelined = 4 * SlotsEach
)

// client is one connection, served by two goroutines: one reads, so that it notices the
// end while the other one works.
type client struct {
	server *Server
	conn   *net.UnixConn
	who    *peer

	seat   *seat // nil before open
	gpu    *l3gpu.Backend
	closed bool // it said that it has closed all handles

	requests chan Request
	problem  string        // why reading ended; set before requests is closed
	eof      bool          // all processes closed the connection; set before ended is closed
	ended    chan struct{} // closed when nothing more comes
}

func (c *client) run() {
	c.requests, c.ended = make(chan Request, pipelined), make(chan struct{})
	ctx, cancel := context.WithCancel(c.server.ctx)
	defer cancel()
	past := time.Unix(1, 0)
	defer context.AfterFunc(c.server.ctx, func() { _ = c.conn.SetReadDeadline(past) })()
	_ = c.conn.SetReadDeadline(time.Now().Add(c.server.o.patience))
	go c.read(cancel)
	if c.answers(ctx) {
		// The connection is read to its end, which comes when no process has it open.
		_ = c.conn.CloseWrite()
	}
	cancel()
	c.leave()
	_ = c.conn.SetReadDeadline(past)
	<-c.ended
}

// answers answers requests until there are no more, and reports whether this side ended the
// connection.
func (c *client) answers(ctx context.Context) (cut bool) {
	for r := range c.requests {
		reply := c.answer(ctx, &r)
		if ctx.Err() != nil {
			return false
		}
		if err := c.server.send(c.conn, reply); err != nil || reply.Fatal {
			return true
		}
		if c.closed {
			return false
		}
	}
	if c.problem != "" {
		_ = c.server.send(c.conn, refuse(KindRequest, c.problem))
	}
	return c.problem != ""
}

// read reads requests to the end of the connection.
func (c *client) read(cancel func()) {
	defer close(c.ended)
	defer cancel()
	r := bufio.NewReaderSize(c.conn, 16<<10)
	defer func() {
		// Requests are not read, but the end of the connection is noticed.
		_, err := io.Copy(io.Discard, r)
		c.eof = err == nil || errors.Is(err, io.EOF)
	}()
	defer close(c.requests)
	for first := true; ; first = false {
		line, err := readLine(r)
		if errors.Is(err, errLong) {
			c.problem = err.Error()
			return
		}
		if err != nil {
			return
		}
		if first && c.server.ctx.Err() == nil {
			_ = c.conn.SetReadDeadline(time.Time{}) // a client may train for hours
		}
		var request Request
		if err := json.Unmarshal(line, &request); err != nil {
			c.problem = fmt.Sprintf("the request cannot be read: %v", err)
			return
		}
		select {
		case c.requests <- request:
		default:
			c.problem = fmt.Sprintf("%d requests wait for their turn: read the replies first", pipelined)
			return
		}
	}
}

var errLong = fmt.Errorf("the request is longer than %d bytes: ask for fewer pictures at once", maxLine)

// readLine reads to the next newline, of no more than maxLine bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, errLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// leave gives the seat back as soon as no process can use its memory; see doc.go.
func (c *client) leave() {
	if c.seat == nil {
		return
	}
	select {
	case <-c.ended:
	case <-c.server.ctx.Done():
		<-c.ended // its deadline is over
	}
	const ever = 1 << 62
	if c.who.gone(c.server.ctx, ever) && c.eof {
		c.server.seats.give(c.seat)
	}
}

func refuse(kind, text string) *Reply { return &Reply{Kind: kind, Error: text, Fatal: true} }

func failed(kind, format string, args ...any) *Reply {
	return &Reply{Kind: kind, Error: fmt.Sprintf(format, args...)}
}

// send sends one line. A client that does not read it in time is an error.
func (s *Server) send(conn *net.UnixConn, r *Reply) error {
	r.V = Version
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(r); err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(s.o.patience)); err != nil {
		return err
	}
	_, err := conn.Write(b.Bytes())
	return err
}

func (c *client) answer(ctx context.Context, r *Request) *Reply {
	switch {
	case r.V != Version:
		return refuse(KindRequest, fmt.Sprintf("the daemon speaks version %d of the protocol, not %d: use the modules in .pipefs/gpu of its mount", Version, r.V))
	case r.Op == OpOpen:
		reply := c.open(r)
		if reply.Error != "" {
			c.server.told(c.who, reply)
		}
		return reply
	case c.seat == nil:
		return refuse(KindRequest, fmt.Sprintf("%q before open", r.Op))
	}
	switch r.Op {
	case OpDecode:
		reply := c.decode(ctx, r)
		if reply.Error != "" && ctx.Err() == nil {
			c.server.stats.failed.Add(1)
			c.server.o.Log.Debug("a batch was not decoded for another process", "pid", c.who.pid, "cause", reply.Error)
		}
		return reply
	case OpRelease:
		return c.release(r)
	case OpClose:
		// Before the reply: the client may connect again at once.
		c.server.seats.give(c.seat)
		c.seat, c.closed = nil, true
		return &Reply{}
	}
	return refuse(KindRequest, fmt.Sprintf("the daemon knows no operation %q", r.Op))
}

// open takes a seat.
func (c *client) open(r *Request) *Reply {
	if c.seat != nil {
		return refuse(KindRequest, "open twice")
	}
	if r.PID != c.who.pid {
		return refuse(KindDenied, fmt.Sprintf("process %d is %d to the mount, so that the two are in different PID namespaces, between which CUDA shares no memory: run the containers with one (--pid=host, or --pid=container:NAME)", r.PID, c.who.pid))
	}
	gpu, err := c.server.o.GPU()
	if err != nil {
		return refuse(KindGPU, err.Error())
	}
	seat, pids := c.server.seats.take(c.who.pid)
	if seat == nil {
		return refuse(KindFull, fmt.Sprintf("%d processes share the GPU already (%s): mount with --gpu-share %d or more", len(pids), strings.Trim(fmt.Sprint(pids), "[]"), len(pids)+1))
	}
	c.seat, c.gpu = seat, gpu
	id := gpu.Identity()
	c.server.o.Log.Info("a process shares the GPU", "pid", c.who.pid, "gpu", id.Name, "slot_bytes", c.server.o.SlotBytes)
	return &Reply{Device: &Device{UUID: id.UUID, PCI: id.PCI, Name: id.Name}, Slots: SlotsEach, SlotBytes: c.server.o.SlotBytes}
}

// release gives a slot back when its client is done with it.
func (c *client) release(r *Request) *Reply {
	if r.Slot < 0 || r.Slot >= SlotsEach || r.Generation == 0 || c.seat.slots[r.Slot].generation != r.Generation {
		return failed(KindRequest, "slot %d has no batch of generation %d: it was released before", r.Slot, r.Generation)
	}
	c.seat.slots[r.Slot].generation = 0
	c.server.seats.use(c.seat)
	return &Reply{Slot: r.Slot}
}
