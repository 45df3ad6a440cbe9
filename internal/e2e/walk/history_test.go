package walk

import (
	"math"
	"sync"
	"time"
)

const (
	absent = -1 // the version of a file that is not there
	torn   = -2 // the version of a file that is written in place: any bytes
)

// grace is how long a reader may be shown what was before an edit. In a watched mount it is some
// milliseconds, but this machine is busy. [walk.settle] is strict.
const grace = 3 * time.Second

// An event gave a file a version, at some time between begin and end.
type event struct {
	begin, end int64 // nanoseconds of CLOCK_MONOTONIC
	version    int
}

// history is what became of each file of the dataset that is edited.
type history struct {
	mu    sync.Mutex
	files map[string][]event
	floor int64 // who opens a file since may not be shown what was before
}

func newHistory(names []string) *history {
	h := &history{files: map[string][]event{}}
	for _, name := range names {
		h.files[name] = []event{{}}
	}
	return h
}

// begin notes that a file is getting a version; done that it has it.
func (h *history) begin(name string, version int) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.files[name])
	h.files[name] = append(h.files[name], event{now(), math.MaxInt64, version})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.files[name][i].end = now()
	}
}

// settled says that readers were seen to get the last version of each file: who opens one from now
// on gets no other.
func (h *history) settled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.floor = now()
}

// latest is the version that a file got last.
func (h *history) latest(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.files[name]
	return events[len(events)-1].version
}

// shown is what a file may be taken for.
type shown struct {
	versions uint64 // a bit for each
	absent   bool
	torn     bool
	changed  bool // it is not the same all the time
}

// between is what may be shown of a file to who looks at it from one time to another.
func (h *history) between(name string, from, to int64) (s shown) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events, edited := h.files[name]
	if !edited {
		return shown{versions: 1}
	}
	began := from
	if from -= int64(grace); began >= h.floor {
		from = max(from, h.floor)
	}
	for i, e := range events {
		// nobody sees by what is read that a file was touched: the floor says nothing of that
		touched := i > 0 && e.version == events[i-1].version && e.begin <= to && e.end >= began-int64(grace)
		s.changed = s.changed || touched

		until := int64(math.MaxInt64)
		if i+1 < len(events) {
			until = events[i+1].end
		}
		if e.begin > to || until < from {
			continue
		}
		s.changed = s.changed || i > 0 && e.end >= from
		switch e.version {
		case absent:
			s.absent = true
		case torn:
			s.torn = true
		default:
			s.versions |= 1 << e.version
		}
	}
	return s
}
