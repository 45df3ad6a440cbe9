package trace

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/account"
)

const (
	// Kept is how many requests are kept for those who ask.
	Kept = 1 << 16
	// MaxTaken is the most that are handed out at once.
	MaxTaken = 1 << 14
	// lease is how long recording goes on after the last Take.
	lease = 5 * time.Second
)

// Event is one request that was answered.
type Event struct {
	At     time.Time `json:"at"`
	Thread uint32    `json:"tid"`
	// PID and Command of the process, as far as the one who asks can see them.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`
	Op      string `json:"op"` // lookup, open or read
	View    string `json:"view"`
	Path    string `json:"path"`
	Offset  int64  `json:"offset"`
	Bytes   int    `json:"bytes"`
	// Took is the time until the reply was sent, in ns; the parts are what it waited for.
	Took int64 `json:"took_ns"`
	account.Parts
	Errno int `json:"errno,omitempty"`
}

// Recorder records requests. The methods of nil record nothing.
type Recorder struct {
	ring atomic.Pointer[ring]
	mu   sync.Mutex // held to start and to stop
}

// ring has the last events.
type ring struct {
	stop *time.Timer

	mu      sync.Mutex
	events  []Event
	next    int64 // number of the next event
	pending map[uint32]*Pending
}

// Pending is what is known of the request of a thread before it ends.
type Pending struct {
	Node  uint64 // of the file that a LOOKUP found
	Spent account.Spent
}

// On reports whether requests are recorded.
func (r *Recorder) On() bool { return r != nil && r.ring.Load() != nil }

// Waited notes what the request of a thread has waited for, and the node that it found; 0 is none.
func (r *Recorder) Waited(thread uint32, node uint64, s *account.Spent) {
	if r == nil {
		return
	}
	g := r.ring.Load()
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pending[thread]
	if p == nil {
		if len(g.pending) > Kept { // of requests that did not end
			clear(g.pending)
		}
		p = &Pending{}
		g.pending[thread] = p
	}
	if node != 0 {
		p.Node = node
	}
	for i, d := range s.Parts {
		p.Spent.Parts[i] += d
	}
}

// Ended returns what is known of the request of a thread, which has ended.
func (r *Recorder) Ended(thread uint32) (p Pending) {
	if g := r.ring.Load(); g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if found := g.pending[thread]; found != nil {
			p = *found
			delete(g.pending, thread)
		}
	}
	return p
}

// Add records a request.
func (r *Recorder) Add(e Event, s *account.Spent) {
	g := r.ring.Load()
	if g == nil {
		return
	}
	part := func(p int) int64 { return int64(s.Parts[p]) }
	e.Parts = account.Parts{Source: part(int(account.Source)), Worker: part(int(account.Worker)), Compute: part(int(account.Compute)), Memory: part(int(account.Memory))}
	e.Copy = max(0, e.Took-e.Source-e.Worker-e.Compute-e.Memory)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.events) < Kept {
		g.events = append(g.events, e)
	} else {
		g.events[g.next%Kept] = e
	}
	g.next++
}

// Taken are events that came after others.
type Taken struct {
	Events []Event `json:"events"`
	Next   int64   `json:"next"` // what to ask for next
	Lost   int64   `json:"lost"` // came before Events, and are not kept any more
}

// Take returns the events from number since on; -1 is those to come. It starts the recording.
func (r *Recorder) Take(since int64) Taken {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.ring.Load()
	if g == nil {
		g = &ring{pending: map[uint32]*Pending{}}
		g.stop = time.AfterFunc(lease, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ring.CompareAndSwap(g, nil)
		})
		r.ring.Store(g)
		since = 0
	}
	g.stop.Reset(lease)
	g.mu.Lock()
	defer g.mu.Unlock()
	if since < 0 || since > g.next {
		since = g.next
	}
	t := Taken{Lost: max(0, g.next-Kept-since)}
	since += t.Lost
	t.Next = min(g.next, since+MaxTaken)
	t.Events = make([]Event, 0, t.Next-since)
	for n := since; n < t.Next; n++ {
		t.Events = append(t.Events, g.events[n%Kept])
	}
	return t
}

// Close stops recording.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.ring.Swap(nil); g != nil {
		g.stop.Stop()
	}
	return nil
}
