package conn

import "sync"

// inflight are the requests that may be interrupted: those that wait for something.
type inflight struct {
	shards [16]inflightShard
}

type inflightShard struct {
	mu       sync.Mutex
	requests map[uint64]*request // by their unique number
	// early are the last requests of which the interrupt came first: it is read by
	// another goroutine. The kernel tells it once.
	early [8]uint64
	next  int
	ended bool
}

func (f *inflight) shard(unique uint64) *inflightShard {
	return &f.shards[unique>>1%uint64(len(f.shards))] // the lowest bit is always 0
}

func (f *inflight) add(r *request) {
	unique := r.header().Unique
	s := f.shard(unique)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.requests = map[uint64]*request{}
	}
	s.requests[unique] = r
	early := false
	for i, u := range s.early {
		if u == unique {
			s.early[i], early = 0, true
		}
	}
	if early || s.ended {
		r.interrupt()
	}
}

// remove makes the request fit for the next one.
func (f *inflight) remove(r *request) {
	unique := r.header().Unique
	s := f.shard(unique)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, unique)
	if r.interrupted {
		r.cancel, r.interrupted = make(chan struct{}), false
	}
}

// interrupt tells whoever answers a request that its caller got a signal.
func (f *inflight) interrupt(unique uint64) {
	s := f.shard(unique)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.requests[unique]; r != nil {
		r.interrupt()
		return
	}
	s.early[s.next%len(s.early)] = unique
	s.next++
}

// interruptAll is for the end of the connection: nobody waits for an answer any more.
func (f *inflight) interruptAll() {
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		s.ended = true
		for _, r := range s.requests {
			r.interrupt()
		}
		s.mu.Unlock()
	}
}

func (r *request) interrupt() {
	if !r.interrupted {
		r.interrupted = true
		close(r.cancel)
	}
}
