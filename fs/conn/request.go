package conn

import (
	"bytes"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// request is a request while it is answered. Whoever answers it owns it.
type request struct {
	in     []byte // header, what belongs to the opcode, names
	cancel chan struct{}
	// Guarded by the lock of its shard in inflight.
	interrupted bool

	out    *fuse.OutHeader
	reply  []byte // what follows the header
	silent bool   // there is no reply

	// lent is content that lies elsewhere and is sent from there; done returns it.
	lent [][]byte
	done fuse.ReadResult

	buf   []byte // that it was read into
	small struct {
		header fuse.OutHeader
		reply  [512]byte // what most replies need
	}
	large *[]byte // from buffers
	class int
	vec   [4][]byte
	// touched keeps the compiler from leaving the touching out.
	touched byte
}

func (r *request) header() *fuse.InHeader { return as[fuse.InHeader](r.in) }

// end sets the status and what follows the header, which is nothing after an error.
func (r *request) end(status fuse.Status, reply []byte) {
	if status != fuse.OK {
		reply = nil
	}
	r.reply = reply
	size := len(reply)
	for _, b := range r.lent {
		size += len(b)
	}
	*r.out = fuse.OutHeader{Length: uint32(outHeaderSize + size), Status: -int32(status), Unique: r.header().Unique}
}

// answer has a request answered. It does not panic.
func (c *Conn) answer(r *request) {
	r.silent, r.reply = false, nil
	defer func() {
		if cause := recover(); cause != nil {
			r.giveBack()
			r.end(c.panicked(cause), nil)
		}
	}()
	h := r.header()
	if h.NodeId == pollNode {
		c.pass(r)
		return
	}
	if c.guard != nil && (h.Opcode == opLookup || h.Opcode == opOpen || h.Opcode == opRead) {
		name := ""
		if h.Opcode == opLookup {
			name = r.name()
		}
		done, status := c.guard(h, name, h.Unique&resent != 0)
		if status != fuse.OK {
			r.end(status, nil)
			return
		}
		defer done()
	}
	switch h.Opcode {
	case opLookup:
		c.lookup(r)
	case opGetAttr:
		known(c, r, func(in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status { return c.fs.GetAttr(r.cancel, in, out) })
	case opOpen:
		c.inflight.add(r)
		defer c.inflight.remove(r)
		known(c, r, func(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status { return c.fs.Open(r.cancel, in, out) })
	case opRead:
		c.read(r)
	case opIoctl:
		c.passIoctl(r)
	case opRelease:
		known(c, r, func(in *fuse.ReleaseIn, _ *struct{}) fuse.Status { c.fs.Release(r.cancel, in); return fuse.OK })
	case opForget:
		if in := as[fuse.ForgetIn](r.in); in != nil {
			c.fs.Forget(h.NodeId, in.Nlookup)
		}
		r.silent = true
	case opInterrupt:
		if in := as[fuse.InterruptIn](r.in); in != nil {
			c.inflight.interrupt(in.Unique)
		}
		r.silent = true
	default:
		c.pass(r)
	}
}

// known answers a request of a fixed size by a reply of a fixed size.
func known[In, Out any](c *Conn, r *request, do func(*In, *Out) fuse.Status) {
	in := as[In](r.in)
	if in == nil {
		c.cutShort(r)
		return
	}
	var none Out
	reply := r.buffer(int(unsafe.Sizeof(none)))
	clear(reply)
	var out *Out
	if len(reply) > 0 {
		out = as[Out](reply)
	}
	r.end(do(in, out), reply)
}

// cutShort answers a request that has not all that belongs to its opcode.
func (c *Conn) cutShort(r *request) {
	c.log.Error("I/O error: a request of the kernel is cut short", "opcode", r.header().Opcode, "bytes", len(r.in))
	r.end(fuse.EIO, nil)
}

// name is the name of a LOOKUP.
func (r *request) name() string {
	name, _, _ := bytes.Cut(r.in[inHeaderSize:], []byte{0})
	return string(name)
}

func (c *Conn) lookup(r *request) {
	name := r.name()
	h := r.header()
	if h.NodeId == rootNode && name == pollName {
		c.pass(r)
		return
	}
	c.inflight.add(r)
	defer c.inflight.remove(r)
	reply := r.buffer(int(unsafe.Sizeof(fuse.EntryOut{})))
	clear(reply)
	r.end(c.fs.Lookup(r.cancel, h, name, as[fuse.EntryOut](reply)), reply)
}

// passIoctl passes on what the kernel has copied from the caller. Its result comes back to him with
// what fs writes, if it is not 0.
func (c *Conn) passIoctl(r *request) {
	in := as[fuse.IoctlIn](r.in)
	if in == nil {
		c.cutShort(r)
		return
	}
	argument := r.in[unsafe.Sizeof(*in):]
	argument = argument[:min(len(argument), int(in.InSize))]
	size := int(unsafe.Sizeof(fuse.IoctlOut{}))
	reply := r.buffer(size + int(min(in.OutSize, maxIoctl)))
	clear(reply)
	out := as[fuse.IoctlOut](reply)
	status := c.fs.Ioctl(r.cancel, in, argument, out, reply[size:])
	if out.Result == 0 {
		reply = reply[:size]
	}
	r.end(status, reply)
}

func (c *Conn) read(r *request) {
	in := as[fuse.ReadIn](r.in)
	if in == nil {
		c.cutShort(r)
		return
	}
	c.inflight.add(r)
	defer c.inflight.remove(r)
	buf := r.buffer(int(min(in.Size, maxPayload)))
	result, status := c.fs.Read(r.cancel, in, buf)
	if status != fuse.OK {
		r.end(status, nil)
		return
	}
	r.done = result
	if l, ok := result.(interface {
		Slices() ([][]byte, fuse.Status)
	}); ok {
		r.lent, status = l.Slices()
		r.end(status, nil)
		return
	}
	got, status := result.Bytes(buf)
	if len(got) > 0 && unsafe.SliceData(got) != unsafe.SliceData(buf) {
		got = buf[:copy(buf, got)]
	}
	r.giveBack()
	r.end(status, got)
}

// giveBack gives back what was lent.
func (r *request) giveBack() {
	if r.done != nil {
		r.done.Done()
		r.done, r.lent = nil, nil
	}
}

// pass has go-fuse answer a request.
func (c *Conn) pass(r *request) {
	size := 2 * maxWrite // a link's target, and all that is fixed
	switch r.header().Opcode {
	case opReadDir, opReadDirPlus:
		if in := as[fuse.ReadIn](r.in); in != nil {
			size += int(min(in.Size, maxPayload))
		}
	case opGetXAttr, opListXAttr:
		if in := as[fuse.GetXAttrIn](r.in); in != nil {
			size += int(min(in.Size, maxPayload))
		}
	}
	reply := r.buffer(size)
	n, status := c.protocol.HandleRequest([][]byte{r.in}, [][]byte{bytesOf(r.out), reply})
	switch {
	case status != fuse.OK || n > 0 && n < outHeaderSize: // go-fuse has logged why
		r.end(fuse.EIO, nil)
	case n == 0:
		r.silent = true
	default:
		r.reply = reply[:n-outHeaderSize]
	}
}
