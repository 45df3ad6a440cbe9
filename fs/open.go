package fs

import (
	"context"
	"errors"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
)

// handles are the files that were resolved last, by node: what LOOKUP found out, READ
// need not find out again. A node always leads to the same bytes, so no entry becomes old.
type handles struct {
	shards [handleShards]struct {
		mu     sync.Mutex
		byNode *lru.Map[uint64, *serve.Handle]
	}
}

const (
	handleShards = 16
	// maxHandles is how many are remembered, of about half a kilobyte each.
	maxHandles = 1 << 14
)

func (h *handles) init() {
	for i := range h.shards {
		h.shards[i].byNode = lru.New[uint64, *serve.Handle](0, maxHandles/handleShards) // all of cost 0
	}
}

// get returns the handle of a node, or nil. It does not allocate.
func (h *handles) get(n uint64) *serve.Handle {
	s := &h.shards[n%handleShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	found, _ := s.byNode.Get(n)
	return found
}

func (h *handles) put(n uint64, found *serve.Handle) {
	s := &h.shards[n%handleShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNode.Put(n, found, 0)
}

// drop forgets a node that nobody will ask for again, and its content.
func (h *handles) drop(n uint64) {
	s := &h.shards[n%handleShards]
	s.mu.Lock()
	found, ok := s.byNode.Remove(n)
	s.mu.Unlock()
	if ok {
		found.Drop()
	}
}

// forget forgets some nodes. Their content stays.
func (h *handles) forget(which func(n uint64) bool) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		keys := s.byNode.Keys()
		s.mu.Unlock()
		for _, n := range keys {
			if which(n) {
				s.mu.Lock()
				s.byNode.Remove(n)
				s.mu.Unlock()
			}
		}
	}
}

// handle returns the handle of a file in a view. The node is that of the view, or of
// `original` for a file that the view shows as it is.
func (f *FS) handle(ctx context.Context, n uint64, file serve.File, v *view) (*serve.Handle, error) {
	// A view of what is stored has the nodes of the view of all samples, but may show a
	// file as it is that the other one changes.
	if h := f.handles.get(n); h != nil && !v.pipeline.Stored() {
		return h, nil
	}
	h, err := f.server.Resolve(ctx, n, file, v.pipeline, f.effort())
	if err != nil {
		return nil, err
	}
	if v.original() || !h.Unchanged() {
		f.handles.put(n, h)
	}
	return h, nil
}

// opens are the files that are open, in DaemonCache mode.
type opens struct {
	mu    sync.RWMutex
	nodes map[uint64]*openNode
}

// openNode is what all open files of one node share. To the kernel a node has
// one backing file, or none, as long as it is open: a second open
// gets what the first one got.
type openNode struct {
	count int // guarded by opens.mu

	mu      sync.Mutex     // held while it is opened
	content *serve.Content // written with opens.mu held as well
	backing int32          // 0: none
}

// content returns the content of an open node, pinned, or nil. Whoever opened the file at a daemon before
// this one counts nowhere: the node may be closed while it reads.
func (o *opens) content(n uint64) *serve.Content {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if node := o.nodes[n]; node != nil && node.content != nil {
		node.content.Pin()
		return node.content
	}
	return nil
}

// Open is answered with "there is no such request" in PageCache mode, unless each open
// has to be checked: the kernel then sends it no more, nor RELEASE, for the whole mount.
func (f *FS) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&unix.O_ACCMODE != unix.O_RDONLY {
		return fuse.EROFS
	}
	if f.mode == PageCache && f.fresh != Checked {
		return fuse.ENOSYS
	}
	index, id := splitNode(in.NodeId)
	if index == 0 {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
		if s := f.root.special(id); s != nil && s.batch != nil {
			out.OpenFlags = fuse.FOPEN_DIRECT_IO // it is in memory, and mostly read once
		}
		return fuse.OK
	}
	v := f.views.at(index)
	e := f.tree.entries.at(id)
	if v == nil || e == nil {
		return estale
	}
	if f.mode == PageCache {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE
		return f.current(v, id)
	}
	f.opens.mu.Lock()
	o := f.opens.nodes[in.NodeId]
	if o == nil {
		o = &openNode{}
		f.opens.nodes[in.NodeId] = o
	}
	o.count++
	f.opens.mu.Unlock()
	v.counters.Open.Add(1)

	status := f.current(v, id)
	if status != fuse.OK {
		f.handles.drop(in.NodeId)
	} else {
		status = f.openNode(cancel, in, v, id, o)
	}
	if status != fuse.OK {
		f.release(v, in.NodeId, o)
		return status
	}
	out.Fh = f.born
	if o.backing != 0 {
		f.account.Passed(in.Pid, v.counters, o.content.Size())
		out.OpenFlags, out.BackingID = fuse.FOPEN_PASSTHROUGH, o.backing
	}
	return fuse.OK
}

// current makes sure that a file did not change since it was looked up. The
// kernel answers ESTALE by looking the name up again, so that a program that opens a file
// that changed gets the new one.
//
// In DaemonCache mode that costs a stat(2), a twentieth of what an open does. A
// network file system asks its server, as it does when its files are opened.
func (f *FS) current(v *view, id uint32) fuse.Status {
	if f.fresh == Immutable {
		return fuse.OK
	}
	path := f.tree.path(id)
	now, err := f.server.Stat(path, f.fresh == Checked)
	if err == nil {
		if before, ok := f.tree.known(id); !ok || before.Identity != now.Identity {
			err = source.ErrChanged
		}
	}
	if err != nil {
		return f.lost(v, id, "open", path, noOffset, err)
	}
	return fuse.OK
}

// openNode opens the content of a node if nobody did yet.
func (f *FS) openNode(cancel <-chan struct{}, in *fuse.OpenIn, v *view, id uint32, o *openNode) fuse.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.content != nil {
		// The cache is told of each open, or it gives up what many read at once.
		if h := f.handles.get(in.NodeId); h != nil {
			if c := h.Cached(); c != nil {
				c.Release()
			}
		}
		return fuse.OK
	}
	_, c, status := f.openContent(cancel, &in.InHeader, v, id, "open", noOffset)
	if status != fuse.OK {
		return status
	}
	backing := f.back(c)
	f.opens.mu.Lock()
	o.content, o.backing = c, backing
	f.opens.mu.Unlock()
	return fuse.OK
}

// back tells the kernel of content's memory, unless it knows, and returns the number
// by which it does; 0 for none.
func (f *FS) back(c *serve.Content) (id int32) {
	k, m := f.kernel.Load(), c.Memory()
	if k == nil || m == nil || !f.passes.Load() {
		return 0
	}
	if id := c.Backing(); id != 0 {
		return id
	}
	id, err := k.RegisterBacking(int(m.Fd()))
	switch {
	case errors.Is(err, unix.EPERM):
		// It will not be permitted later either.
		if f.passes.CompareAndSwap(true, false) {
			f.log.Info("no passthrough: it needs CAP_SYS_ADMIN; files are read through the daemon")
		}
		return 0
	case err != nil:
		f.log.Debug("no passthrough for one file", "cause", err)
		return 0
	}
	c.Back(id, f.unback)
	return id
}

// unback takes back what back told. After the mount there is nothing left of it.
func (f *FS) unback(id int32) {
	if k := f.kernel.Load(); k != nil {
		if err := k.UnregisterBacking(id); err != nil {
			f.log.Debug("a backing file stays registered", "cause", err)
		}
	}
}

// Release ends an open. One of the daemon before this one counts nowhere.
func (f *FS) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if f.mode == PageCache || in.Fh != f.born {
		return
	}
	index, _ := splitNode(in.NodeId)
	v := f.views.at(index)
	if v == nil {
		return
	}
	f.opens.mu.RLock()
	o := f.opens.nodes[in.NodeId]
	f.opens.mu.RUnlock()
	if o != nil {
		f.release(v, in.NodeId, o)
	}
}

// release takes one off the count; the last one closes.
func (f *FS) release(v *view, n uint64, o *openNode) {
	v.counters.Open.Add(-1)
	f.opens.mu.Lock()
	o.count--
	last := o.count == 0
	if last && f.opens.nodes[n] == o {
		delete(f.opens.nodes, n)
	}
	f.opens.mu.Unlock()
	if last {
		f.closeNode(o)
		if v.pipeline.Random() {
			f.readDraw(n)
		}
	}
}

func (f *FS) closeNode(o *openNode) {
	if o.content != nil {
		o.content.Release()
	}
}

// releaseAll gives back what is open when the mount ends: the kernel sends no
// RELEASE then.
func (o *opens) releaseAll() {
	o.mu.Lock()
	nodes := o.nodes
	o.nodes = map[uint64]*openNode{}
	o.mu.Unlock()
	for _, n := range nodes {
		if n.content != nil {
			n.content.Release()
		}
	}
}

// Flush is not needed: nothing is written.
func (f *FS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }
