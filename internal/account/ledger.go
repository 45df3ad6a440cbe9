package account

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// MaxReaders is how many processes are told apart.
	MaxReaders = 256
	// maxViews is how many views are told apart.
	maxViews = 1024
	// History is how many seconds are kept for those who begin to watch.
	History = 300
	// looks is how many times a second it is looked whether readers wait.
	looks = 20
	// kept is how many snapshots are kept, one a second.
	kept = 61
)

// Ledger is the accounting of one mount.
type Ledger struct {
	began   time.Time
	threads threads
	views   sync.Map // *View by name
	others  View     // where there are too many

	mu        sync.Mutex
	names     int
	sampled   int64 // when
	processes map[int]*process
	ended     process // the sum of those that have ended
	quiet     int
	timed     Timed
	looks     Looks
	fill      func(*Snapshot)
	past      []*Snapshot // without readers, the oldest first
	history   []Second    // the oldest first
}

// New returns a ledger.
func New() *Ledger {
	l := &Ledger{began: time.Now(), processes: map[int]*process{}}
	l.others.name = "other views"
	return l
}

// now is ns since the begin, and never 0.
func (l *Ledger) now() int64 { return int64(time.Since(l.began)) + 1 }

// View returns what counts the requests for a view. The name is that of its pipeline.
func (l *Ledger) View(name string) *View {
	if l == nil {
		return nil
	}
	if v, ok := l.views.Load(name); ok {
		return v.(*View)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names >= maxViews {
		return &l.others
	}
	v, was := l.views.LoadOrStore(name, &View{name: name})
	if !was {
		l.names++
	}
	return v.(*View)
}

// Timed notes what a training has measured itself.
func (l *Ledger) Timed(t Timed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timed.Waited += t.Waited
	l.timed.Worked += t.Worked
	l.timed.Steps += t.Steps
}

// Run samples once a second, until stop is closed. What only the mount knows is filled in by fill.
func (l *Ledger) Run(stop <-chan struct{}, fill func(*Snapshot)) {
	l.mu.Lock()
	l.fill = fill
	l.mu.Unlock()
	for {
		s := l.Now()
		s.Readers = nil
		l.mu.Lock()
		if len(l.past) == kept {
			l.past = append(l.past[:0], l.past[1:]...)
		}
		if n := len(l.past); n > 0 {
			l.history = append(l.history[max(0, len(l.history)-History+1):], s.Second(l.past[n-1]))
		}
		l.past = append(l.past, s)
		l.mu.Unlock()
		for range looks {
			select {
			case <-stop:
				return
			case <-time.After(time.Second / looks):
			}
			if waiting, read := l.threads.look(); read {
				l.mu.Lock()
				l.looks.All++
				l.looks.Waiting += waiting
				l.mu.Unlock()
			}
		}
	}
}

// Seconds returns the last ones, the oldest first, [History] of them at most.
func (l *Ledger) Seconds() []Second {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.history)
}

// Past returns snapshots of the last minute, without readers, the oldest first.
func (l *Ledger) Past() []*Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.past)
}

// window is the time that a verdict is about.
const window = 30 * time.Second

// Judge says what has held readers back lately, up to a snapshot that was just taken.
func (l *Ledger) Judge(now *Snapshot, at Place) Verdict {
	past := l.Past()
	asked := func(s *Snapshot) int64 { t := s.Total(); return t.Lookups + t.Opens + t.Reads + s.Timed.Steps }
	for len(past) > 1 && (now.At.Sub(past[0].At) > window || asked(past[1]) == asked(past[0])) {
		past = past[1:]
	}
	if len(past) == 0 {
		return Judge(now, 0, at)
	}
	return Judge(now.Since(past[0]), now.At.Sub(past[0].At), at)
}

// Now returns what was counted so far.
func (l *Ledger) Now() *Snapshot {
	l.mu.Lock()
	l.sample()
	s := &Snapshot{V: Version, At: time.Now(), Reading: l.ended.sum.Reading, Timed: l.timed, Looks: l.looks, Machine: machine()}
	s.Reading.Quiet = l.quiet
	for _, p := range l.processes {
		if p.sum.Requests >= regular {
			s.Reading.add(&p.sum.Reading, 1)
		}
		s.Readers = append(s.Readers, p.reader())
	}
	fill := l.fill
	l.mu.Unlock()
	l.views.Range(func(_, v any) bool {
		if seen := v.(*View).seen(); seen.Lookups+seen.Opens+seen.Reads+seen.Errors+seen.Making.Samples > 0 {
			s.Views = append(s.Views, seen)
		}
		return true
	})
	if seen := l.others.seen(); seen.Lookups+seen.Reads > 0 {
		s.Views = append(s.Views, seen)
	}
	slices.SortFunc(s.Views, func(a, b Seen) int { return cmp.Compare(a.View, b.View) })
	slices.SortFunc(s.Readers, func(a, b Reader) int { return cmp.Compare(a.PID, b.PID) })
	if fill != nil {
		fill(s)
	}
	return s
}
