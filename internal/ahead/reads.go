package ahead

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pipefs/pipefs/internal/serve"
)

// Stats is what became of hints.
type Stats struct {
	Hinted  int64 // files that were announced
	Loaded  int64 // files that were loaded
	Read    int64 // of these, read
	Waited  int64 // of these, by a reader that came while the file was being loaded
	Already int64 // not loaded: in memory, being loaded, or opened by then
	Wasted  int64 // loaded, and never read
	Dropped int64 // not loaded: their reader went on, or reads other files
	Failed  int64 // not there, or could not be loaded
	Wrong   int64 // streams of which other files were read than they announced
	Bytes   int64 // of files that are loaded and not read
	Streams int
}

// Stats returns the counters.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Bytes, s.Streams = q.held, len(q.streams)
	return s
}

// read notes that a reader has opened a file.
func (q *Queue) read(f *file, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	place := slices.Index(f.of.unread, f)
	if !q.take(f) {
		return
	}
	s := f.of
	s.reads++
	s.last, s.unhinted, s.paused = time.Now(), q.o.Server.Unhinted(), false
	q.stats.Read++
	if waited {
		q.stats.Waited++
		s.window, s.calm = min(2*s.window, maxFiles), 0
	} else if s.calm++; s.calm > calmWindows*s.window && s.window > firstWindow {
		s.window, s.calm = s.window*3/4, 0
	}
	// Those before it are in the kernel's cache, or nobody wants them.
	late := false
	for _, before := range slices.Clone(s.unread[:place]) {
		if before.ahead != nil && time.Since(before.at) > behind {
			q.drop(before)
			late = true
		}
	}
	if late {
		s.window = max(1, s.window/2)
	}
	q.pump()
}

// failed notes that a file was not loaded. The caller holds mu.
func (q *Queue) failed(f *file, err error) {
	if !q.take(f) {
		return // counted when it was dropped
	}
	switch {
	case errors.Is(err, serve.ErrAlready):
		q.stats.Already++
	case errors.Is(err, context.Canceled):
		q.stats.Dropped++
	default:
		q.stats.Failed++
		q.o.Log.Debug("a file that was announced cannot be loaded", "path", f.path, "cause", err)
	}
}

// look looks now and then at what nobody has read.
func (q *Queue) look() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil {
		return
	}
	for _, s := range q.streams {
		q.astray(s)
		old := slices.ContainsFunc(s.unread, func(f *file) bool { return f.ahead != nil && time.Since(f.at) > q.stale })
		idle := time.Since(s.last)
		switch {
		case idle > silent, idle > 2*q.stale && len(s.messages)+len(s.unread) == 0:
			q.end(s)
		case old && idle > q.stale && !s.paused:
			q.stop(s) // the reader was killed, or is at something else
		}
	}
	q.pump()
	if len(q.streams) > 0 {
		q.timer.Reset(tick)
	}
}

// stop drops what is loaded for a stream whose reader does not come. Of an order some files
// stay: the order goes on when one of them is read, such as after a validation. The caller holds
// mu.
func (q *Queue) stop(s *stream) {
	s.window = max(1, s.window/2)
	if !s.order {
		q.empty(s)
		return
	}
	s.paused = true
	kept := 0
	for _, f := range slices.Clone(s.unread) {
		if f.ahead != nil && kept < keptFiles {
			kept++
			continue
		}
		q.drop(f)
	}
}

// astray stops a stream of which nothing is read while many other files are. The caller holds
// mu.
func (q *Queue) astray(s *stream) {
	opened := q.o.Server.Unhinted() - s.unhinted
	i := slices.IndexFunc(s.unread, func(f *file) bool { return f.ahead != nil })
	if i < 0 || opened < astray || s.paused {
		return
	}
	example := s.unread[i].path
	q.stop(s)
	s.window, s.unhinted = 1, q.o.Server.Unhinted()
	q.stats.Wrong++
	if !s.told {
		s.told = true
		q.o.Log.Warn("other files are read than were announced; what was announced is dropped", "stream", s.name, "opened", opened, "announced", example)
	}
}
