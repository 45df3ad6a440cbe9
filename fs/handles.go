package fs

import (
	"context"
	"sync"

	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/internal/serve"
)

// handles are the files that were resolved last, by node: what LOOKUP found out, READ
// need not find out again. A node always leads to the same bytes, so no entry becomes old.
type handles struct {
	shards [handleShards]struct {
		mu     sync.Mutex
		byNode *lru.Map[uint64, Handle]
	}
}

const (
	handleShards = 16
	// maxHandles is how many are remembered, of about half a kilobyte each.
	maxHandles = 1 << 14
)

func (h *handles) init() {
	for i := range h.shards {
		h.shards[i].byNode = lru.New[uint64, Handle](0, maxHandles/handleShards) // all of cost 0
	}
}

// get returns the handle of a node, or nil. It does not allocate.
func (h *handles) get(n uint64) Handle {
	s := &h.shards[n%handleShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	found, _ := s.byNode.Get(n)
	return found
}

func (h *handles) put(n uint64, found Handle) {
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
func (f *FS) handle(ctx context.Context, n uint64, file serve.File, v *view) (Handle, error) {
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
