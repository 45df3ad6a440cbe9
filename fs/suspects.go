package fs

import (
	"errors"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// suspects are the requests that were in flight when daemons of this mount died of what they
// did: they ran out of memory, or crashed. Requests that the kernel sends again run alone. The
// one that runs alone when yet another daemon dies gets EIO from then on: else it would end
// each daemon that comes.
type suspects struct {
	f       *FS
	journal *Journal
	alone   sync.RWMutex // a request that was sent again holds it, the others share it
	refused map[suspect]bool
}

// suspect is what a request asks for.
type suspect struct {
	Op   uint32 `json:"op"`
	Node uint64 `json:"node"`
	Name string `json:"name,omitempty"` // in the directory Node
}

// resumeSuspects takes up what the daemons before this one noted. died: the last of them died
// of what it did, and not for the first time.
func (f *FS) resumeSuspects(p *past, died bool) {
	s := suspects{f: f, journal: f.journal, refused: map[suspect]bool{}}
	for _, r := range p.refused {
		s.refused[r] = true
	}
	switch {
	case p.alone != nil && died:
		s.refused[*p.alone] = true
		f.journal.writeJSON(recordRefused, p.alone)
	case p.alone != nil:
		f.journal.writeJSON(recordAlone, nil)
	}
	if died || len(s.refused) > 0 {
		f.suspects = &s
	}
}

// guard is called before a request is answered, and its result afterwards; resent: the kernel
// sends it again.
func (s *suspects) guard(h *fuse.InHeader, name string, resent bool) (done func(), status fuse.Status) {
	what := suspect{Op: h.Opcode, Node: h.NodeId, Name: name}
	if s.refused[what] {
		return nil, s.f.refuseSuspect(what)
	}
	if !resent {
		s.alone.RLock()
		return s.alone.RUnlock, fuse.OK
	}
	s.alone.Lock()
	s.journal.writeJSON(recordAlone, what)
	return func() {
		s.journal.writeJSON(recordAlone, nil)
		s.alone.Unlock()
	}, fuse.OK
}

// errDied is why a request is refused.
var errDied = errors.New("daemons of this mount died while they answered this request: it may take more memory than there is. " +
	"Mount again to try it again")

// refuseSuspect answers a request that daemons died of.
func (f *FS) refuseSuspect(what suspect) fuse.Status {
	index, id := splitNode(what.Node)
	v, op, path := f.views.at(index), "read", what.Name
	if what.Name != "" {
		op = "lookup"
	}
	if v == nil { // something beside the views
		v = f.views.at(originalView)
	} else if path = f.tree.path(id); what.Name != "" {
		path = join(path, what.Name)
	}
	return f.fail(v, op, path, noOffset, errDied)
}
