package account

import (
	"sync/atomic"
	"time"
)

// thread is a thread that sends requests. The kernel may have several of one thread under way: it reads
// ahead.
type thread struct {
	id       uint32
	inflight atomic.Int32
	// since is when the last change between waiting and being away was; ns since the begin of the ledger.
	since        atomic.Int64
	waited, away atomic.Int64 // ns
	requests     atomic.Int64 // OPEN and READ that were answered
	bytes        atomic.Int64
	errors       atomic.Int64
	parts        [parts]atomic.Int64
	views        [4]atomic.Pointer[View] // of which it has read, the first ones

	last   counted // what the sampler has seen of it
	active int64   // when the sampler has last seen a request of it
	group  *process
}

// Request is one LOOKUP, OPEN or READ under way.
type Request struct {
	thread *thread
	began  int64
}

const (
	places = 1024 // for threads
	probes = 8
)

// threads finds a thread by its number.
type threads struct {
	places [places]atomic.Pointer[thread]
	// others stands for all threads for which there is no place.
	others thread
}

// find returns a thread. It allocates where it is new.
func (t *threads) find(id uint32) *thread {
	at := id * 2654435761 >> 16
	var made *thread
	for {
		free := -1
		for i := range uint32(probes) {
			place := (at + i) % places
			switch found := t.places[place].Load(); {
			case found == nil:
				if free < 0 {
					free = int(place)
				}
			case found.id == id:
				return found
			}
		}
		if free < 0 {
			return &t.others
		}
		if made == nil {
			made = &thread{id: id}
		}
		if t.places[free].CompareAndSwap(nil, made) {
			return made
		}
	}
}

// look reports whether there are readers, and whether one waits: 1 or 0.
func (t *threads) look() (waiting int64, read bool) {
	for i := range t.places {
		if r := t.places[i].Load(); r != nil {
			if read = true; r.inflight.Load() > 0 {
				return 1, true
			}
		}
	}
	return int64(min(t.others.inflight.Load(), 1)), read || t.others.inflight.Load() > 0
}

// Begin notes that a thread sent a request.
func (l *Ledger) Begin(id uint32) Request {
	now := l.now()
	t := l.threads.find(id)
	if t.inflight.Add(1) == 1 {
		if before := t.since.Swap(now); before != 0 {
			t.away.Add(now - before)
		}
	}
	return Request{t, now}
}

// Kind of a request.
type Kind int

// The kinds.
const (
	Lookup Kind = iota
	Open
	Read
)

// End notes that a request was answered, with so many bytes, and for which view; nil for none.
func (l *Ledger) End(r Request, v *View, kind Kind, bytes int, failed bool) {
	now := l.now()
	t := r.thread
	if t.inflight.Add(-1) == 0 {
		t.waited.Add(now - t.since.Swap(now))
	}
	switch {
	case failed:
		t.errors.Add(1)
	case kind == Read:
		t.bytes.Add(int64(bytes))
		fallthrough
	case kind == Open:
		t.requests.Add(1)
	}
	if v == nil {
		return
	}
	v.total.Add(now - r.began)
	if kind != Lookup {
		v.took.Add(now - r.began)
		v.latency[bucket(time.Duration(now-r.began))].Add(1)
	}
	for i := range t.views {
		switch was := t.views[i].Load(); {
		case was == v:
			return
		case was == nil && t.views[i].CompareAndSwap(nil, v):
			return
		}
	}
}

// Passed notes that a thread opened so many bytes, which the kernel reads without asking.
func (l *Ledger) Passed(id uint32, v *View, bytes int64) {
	l.threads.find(id).bytes.Add(bytes)
	v.Begun.Add(1)
	v.Bytes.Add(bytes)
}

// Took is how long ago a request began.
func (l *Ledger) Took(r Request) time.Duration { return time.Duration(l.now() - r.began) }

// Waited notes what a request of a thread waited for.
func (l *Ledger) Waited(id uint32, v *View, s *Spent) {
	t := l.threads.find(id)
	for p, d := range s.Parts {
		if d > 0 {
			t.parts[p].Add(int64(d))
			v.parts[p].Add(int64(d))
		}
	}
}
