package fs

import (
	"context"
	"encoding/json"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/serve"
)

// answered notes that a request was answered, and how long that took.
func (f *FS) answered(h *fuse.InHeader, began account.Request, bytes int, status fuse.Status) {
	kind := account.Lookup
	switch h.Opcode {
	case opOpen:
		kind = account.Open
	case opRead:
		kind = account.Read
	}
	index, id := splitNode(h.NodeId)
	var counters *account.View
	switch v := f.views.at(index); {
	case v != nil:
		counters = v.counters
		if kind == account.Open && status.Ok() {
			counters.Opens.Add(1)
		}
	case index == 0 && kind == account.Read && id >= firstSpecial:
		if s := f.root.special(id); s != nil {
			counters = f.countersOf(s.epochFile())
		}
		if counters != nil && status.Ok() {
			counters.Reads.Add(1)
			counters.Bytes.Add(int64(bytes))
		}
	}
	if status == fuse.ENOSYS { // the kernel need not ask, see Open
		status = fuse.OK
	}
	f.account.End(began, counters, kind, bytes, !status.Ok())
	if f.trace.On() {
		f.record(h, kind, f.account.Took(began), bytes, status)
	}
}

// The numbers of the requests in the kernel's linux/fuse.h.
const (
	opOpen = 14
	opRead = 15
)

// timedCommand is the number of the ioctl of pipefs.timed, without the size of its argument: _IOWR('p', 0xa3, MESSAGE).
const timedCommand = 3<<30 | 'p'<<8 | 0xa3

// timed notes what a training has measured since it told before. Whoever can read the mount may tell, and it changes
// nothing but what is said of the training.
func (f *FS) timed(message []byte) fuse.Status {
	var m struct {
		V int `json:"v"`
		account.Timed
	}
	if err := json.Unmarshal(message, &m); err != nil || m.V != 1 || min(m.Waited, m.Worked, m.Steps) < 0 || max(m.Waited, m.Worked, m.Steps) > int64(24*time.Hour) {
		return fuse.EINVAL
	}
	f.account.Timed(m.Timed)
	return fuse.OK
}

// epochFile is the file of samples of epoch views that a special file is, or nil.
func (s *special) epochFile() *epoch.File {
	if s.asked == nil {
		return s.batch
	}
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	return s.asked.file
}

// countersOf returns the counters of the view whose samples a file has; nil of none.
func (f *FS) countersOf(file *epoch.File) *account.View {
	if file == nil {
		return nil
	}
	return file.View().Counters()
}

// waited notes what a request has waited for.
func (f *FS) waited(ctx context.Context, v *account.View) {
	if r, ok := ctx.(*request); ok && v != nil {
		f.account.Waited(r.pid, v, &r.spent)
		f.trace.Waited(r.pid, 0, &r.spent)
		r.spent = account.Spent{}
	}
}

// readFrom reads content that is not in memory in one piece. It does not allocate.
func (f *FS) readFrom(c *serve.Content, buf []byte, in *fuse.ReadIn, v *view) (int, error) {
	if c.Memory() != nil {
		return readFull(c, c.Size(), buf, int64(in.Offset))
	}
	var spent account.Spent
	lap := spent.Lap()
	n, err := readFull(c, c.Size(), buf, int64(in.Offset))
	lap.End(account.Source)
	f.account.Waited(in.Pid, v.counters, &spent)
	f.trace.Waited(in.Pid, 0, &spent)
	return n, err
}

var opNames = map[account.Kind]string{account.Lookup: "lookup", account.Open: "open", account.Read: "read"}

// record records a request that was answered. A LOOKUP that found nothing is one of its directory.
func (f *FS) record(h *fuse.InHeader, kind account.Kind, took time.Duration, bytes int, status fuse.Status) {
	e := account.Event{At: time.Now(), Thread: h.Pid, Op: opNames[kind], Took: int64(took), Errno: int(status)}
	if kind == account.Read {
		e.Bytes = bytes
		// The header begins the request, which is in memory in one piece.
		e.Offset = int64((*fuse.ReadIn)(unsafe.Pointer(h)).Offset)
	}
	p := f.trace.Ended(h.Pid)
	n := h.NodeId
	if kind == account.Lookup && p.Node != 0 {
		n = p.Node
	}
	index, id := splitNode(n)
	if v := f.views.at(index); v != nil {
		e.View, e.Path = v.name, f.tree.path(id)
	} else if s := f.root.special(id); index == 0 && id >= firstSpecial && s != nil {
		if v := f.countersOf(s.epochFile()); v != nil {
			e.View = v.Name()
		}
	}
	f.trace.Add(e, &p.Spent)
}
