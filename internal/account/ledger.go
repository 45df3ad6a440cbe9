package account

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
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
	asked := func(s *Snapshot) int64 { // or waited, if no request is answered
		t := s.Total()
		return t.Lookups + t.Opens + t.Reads + s.Timed.Steps + s.Looks.Waiting
	}
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

// View counts what was asked of one view. What the kernel has cached it does not ask for.
type View struct {
	Lookups, Opens, Reads, Bytes, Errors atomic.Int64
	// Begun is how often a file was read from its first byte on. What the kernel reads without asking
	// counts when it is opened, with all its Bytes.
	Begun atomic.Int64
	// Open is the number of files that are open, in the mode in which the mount is told of closing.
	Open atomic.Int64

	name    string
	total   atomic.Int64 // ns of all requests
	took    atomic.Int64 // ns of those that latency counts
	parts   [parts]atomic.Int64
	latency [buckets]atomic.Int64

	// What was made for the view, whether a reader waited for it or it was made ahead.
	made, fetched atomic.Int64
	making        [parts]atomic.Int64
}

// Name of the view.
func (v *View) Name() string { return v.name }

// Read counts a READ that was answered.
func (v *View) Read(off uint64, n int) {
	v.Reads.Add(1)
	v.Bytes.Add(int64(n))
	if off == 0 {
		v.Begun.Add(1)
	}
}

// Made counts a sample that was made.
func (v *View) Made(s *Spent) {
	if v == nil {
		return
	}
	v.made.Add(1)
	v.fetched.Add(s.Fetched)
	for p, d := range s.Parts {
		v.making[p].Add(int64(d))
	}
}

// Durations are counted in four buckets for each power of two, from a microsecond to a minute.
const (
	buckets = 4 * 27
	shift   = 8 // the lowest bucket ends at 1 << (shift + 2) ns
)

func bucket(d time.Duration) int {
	n := uint64(max(d, 0)) >> shift
	if n < 4 {
		return 0
	}
	top := bits.Len64(n) - 3 // n has the bits of 4 to 7 above this one
	return min(4*top+int(n>>top)-3, buckets-1)
}

// UpTo is the longest duration of a bucket, in ns.
func upTo(bucket int) int64 {
	if bucket == 0 {
		return 4<<shift - 1
	}
	bucket--
	return (int64(bucket%4)+5)<<(bucket/4+shift) - 1
}

// Part is what a request waits for.
type Part int

// The parts. What remains of a request is copying.
const (
	Source  Part = iota // reading the dataset, store or overlay
	Worker              // a place among those that compute
	Compute             // the steps of the view
	Memory              // a limit on memory
	parts
)

// Spent is where the time of one request went, or that of making one sample.
type Spent struct {
	Parts   [parts]time.Duration
	Fetched int64 // bytes
}

// Key is that of a *Spent in a context.
type Key struct{}

// With returns a context whose requests are noted in s.
func With(ctx context.Context, s *Spent) context.Context { return context.WithValue(ctx, Key{}, s) }

// From returns what notes the requests of a context, or nil: methods of nil do nothing.
func From(ctx context.Context) *Spent {
	s, _ := ctx.Value(Key{}).(*Spent)
	return s
}

// Add adds what was spent elsewhere on behalf of the same request.
func (s *Spent) Add(other *Spent) {
	if s == nil {
		return
	}
	for p, d := range other.Parts {
		s.Parts[p] += d
	}
	s.Fetched += other.Fetched
}

// Share notes that a request waited until somebody else had made what it wants. The time is divided as
// that of the maker is.
func (s *Spent) Share(maker *Spent, waited time.Duration) {
	if s == nil {
		return
	}
	all := time.Duration(0)
	for _, d := range maker.Parts {
		all += d
	}
	if all == 0 {
		return
	}
	for p, d := range maker.Parts {
		s.Parts[p] += time.Duration(float64(waited) * float64(d) / float64(all))
	}
}

// Lap divides time into parts.
type Lap struct {
	to *Spent
	at time.Time
}

// Lap begins one.
func (s *Spent) Lap() Lap {
	if s == nil {
		return Lap{}
	}
	return Lap{s, time.Now()}
}

// End notes that the time since the begin, or since the last End, was spent on a part.
func (l *Lap) End(p Part) {
	if l.to == nil {
		return
	}
	now := time.Now()
	l.to.Parts[p] += now.Sub(l.at)
	l.at = now
}
