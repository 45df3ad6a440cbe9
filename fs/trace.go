package fs

import (
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/trace"
)

var opNames = map[account.Kind]string{account.Lookup: "lookup", account.Open: "open", account.Read: "read"}

// record records a request that was answered. A LOOKUP that found nothing is one of its directory.
func (f *FS) record(h *fuse.InHeader, kind account.Kind, took time.Duration, bytes int, status fuse.Status) {
	e := trace.Event{At: time.Now(), Thread: h.Pid, Op: opNames[kind], Took: int64(took), Errno: int(status)}
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
