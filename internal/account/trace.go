package account

import (
	"cmp"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// KeptEvents is how many requests are kept for those who ask.
	KeptEvents = 1 << 16
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
	Parts
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
	Spent Spent
}

// On reports whether requests are recorded.
func (r *Recorder) On() bool { return r != nil && r.ring.Load() != nil }

// Waited notes what the request of a thread has waited for, and the node that it found; 0 is none.
func (r *Recorder) Waited(thread uint32, node uint64, s *Spent) {
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
		if len(g.pending) > KeptEvents { // of requests that did not end
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
func (r *Recorder) Add(e Event, s *Spent) {
	g := r.ring.Load()
	if g == nil {
		return
	}
	part := func(p int) int64 { return int64(s.Parts[p]) }
	e.Parts = Parts{Source: part(int(Source)), Worker: part(int(Worker)), Compute: part(int(Compute)), Memory: part(int(Memory))}
	e.Copy = max(0, e.Took-e.Source-e.Worker-e.Compute-e.Memory)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.events) < KeptEvents {
		g.events = append(g.events, e)
	} else {
		g.events[g.next%KeptEvents] = e
	}
	g.next++
}

// Taken are events that came after others.
type Taken struct {
	Events []Event `json:"events"`
	Next   int64   `json:"next"` // what to ask for next
	Lost   int64   `json:"lost"` // came before Events, and were overwritten
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
	t := Taken{Lost: max(0, g.next-KeptEvents-since)}
	since += t.Lost
	t.Next = min(g.next, since+MaxTaken)
	t.Events = make([]Event, 0, t.Next-since)
	for n := since; n < t.Next; n++ {
		t.Events = append(t.Events, g.events[n%KeptEvents])
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

// TraceSummary is what requests have in common.
type TraceSummary struct {
	Requests int64        `json:"requests"`
	Bytes    int64        `json:"bytes"`
	Took     int64        `json:"took_ns"`
	Errors   int64        `json:"errors"`
	Lost     int64        `json:"lost"`
	Slowest  []TracedFile `json:"slowest"`
	Repeated []TracedFile `json:"repeated"` // files that were begun more than once
	Again    int64        `json:"again"`    // files begun that were begun before
	Order    []ReadOrder  `json:"order"`    // one of each process
}

// TracedFile is what was asked of one file.
type TracedFile struct {
	Path   string `json:"path"` // with its view
	Took   int64  `json:"took_ns"`
	Begun  int64  `json:"begun"`
	Bytes  int64  `json:"bytes"`
	Errors int64  `json:"errors"`
}

// ReadOrder is how a process goes through the files of a view: sequential, strided, shuffled, or unclear.
type ReadOrder struct {
	PID    int    `json:"pid"`
	View   string `json:"view"`
	Files  int    `json:"files"`
	Order  string `json:"order"`
	Stride int    `json:"stride,omitempty"`
}

const (
	// mostFiles is how many files are named.
	mostFiles = 10
	// leastFiles is how many files an order needs.
	leastFiles = 8
)

// reader is a process in a view.
type reader struct {
	pid  int
	view string
}

// Summarize tells what events have in common.
func Summarize(events []Event, lost int64) TraceSummary {
	s := TraceSummary{Lost: lost, Slowest: []TracedFile{}, Repeated: []TracedFile{}, Order: []ReadOrder{}}
	files := map[string]*TracedFile{}
	seen := map[reader][]string{} // files in the order in which they were begun
	for i := range events {
		e := &events[i]
		s.Requests, s.Bytes, s.Took = s.Requests+1, s.Bytes+int64(e.Bytes), s.Took+e.Took
		name := path.Join(e.View, e.Path)
		f := files[name]
		if f == nil {
			f = &TracedFile{Path: name}
			files[name] = f
		}
		f.Took, f.Bytes = f.Took+e.Took, f.Bytes+int64(e.Bytes)
		if e.Errno != 0 {
			f.Errors++
			s.Errors++
		}
		if e.Op == "read" && e.Offset == 0 && e.Bytes > 0 {
			if f.Begun++; f.Begun > 1 {
				s.Again++
			}
			r := reader{cmp.Or(e.PID, int(e.Thread)), e.View}
			seen[r] = append(seen[r], name)
		}
	}
	for _, f := range files {
		s.Slowest = append(s.Slowest, *f)
		if f.Begun > 1 {
			s.Repeated = append(s.Repeated, *f)
		}
	}
	slices.SortFunc(s.Slowest, func(a, b TracedFile) int { return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Path, b.Path)) })
	slices.SortFunc(s.Repeated, func(a, b TracedFile) int { return cmp.Or(cmp.Compare(b.Begun, a.Begun), cmp.Compare(a.Path, b.Path)) })
	s.Slowest = s.Slowest[:min(len(s.Slowest), mostFiles)]
	s.Repeated = s.Repeated[:min(len(s.Repeated), mostFiles)]
	s.Order = orders(seen)
	return s
}

// orders tells in which order processes read, by the places of the files among all that were read in their view.
func orders(seen map[reader][]string) []ReadOrder {
	places := map[string]map[string]int{}
	for r, names := range seen {
		if places[r.view] == nil {
			places[r.view] = map[string]int{}
		}
		for _, n := range names {
			places[r.view][n] = 0
		}
	}
	for _, of := range places {
		var names []string
		for n := range of {
			names = append(names, n)
		}
		slices.Sort(names)
		for i, n := range names {
			of[n] = i
		}
	}
	all := []ReadOrder{}
	for r, names := range seen {
		o := ReadOrder{PID: r.pid, View: r.view, Files: len(names), Order: "unclear"}
		steps := map[int]int{}
		for i := 1; i < len(names); i++ {
			steps[places[r.view][names[i]]-places[r.view][names[i-1]]]++
		}
		best := 0
		for step, n := range steps {
			if n > steps[best] || n == steps[best] && step < best {
				best = step
			}
		}
		switch most := steps[best]; {
		case len(names) < leastFiles:
		case 10*most < 6*(len(names)-1):
			o.Order = "shuffled"
		case best == 1:
			o.Order = "sequential"
		default:
			o.Order, o.Stride = "strided", best
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b ReadOrder) int { return cmp.Or(cmp.Compare(a.View, b.View), cmp.Compare(a.PID, b.PID)) })
	return all
}
