package fs

import (
	"path"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/lru"
)

// failures are the faults that were logged. A training reads a broken file in each epoch,
// and each time by several requests: the log has one line for it, not thousands.
type failures struct {
	mu    sync.Mutex
	known *lru.Map[failure, *failed]
	last  *lru.Map[string, error] // by path of the mount
}

// failure is what one line of the log tells.
type failure struct{ view, path, cause string }

type failed struct {
	times  int       // requests that failed so
	logged time.Time // when it was last told
}

const (
	maxFailures = 1 << 12
	// failureEvery is how often a fault is told that persists.
	failureEvery = time.Hour
)

func (f *failures) init() {
	f.known, f.last = lru.New[failure, *failed](0, maxFailures), lru.New[string, error](0, maxFailures)
}

// keep keeps the cause of a failure for [FS.Why].
func (f *failures) keep(path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last.Put(path, err, 0)
}

// Why returns the cause of the last failure of a path of the mount, or of a directory above it. It is empty
// if none is known.
func (f *FS) Why(name string) string {
	f.failures.mu.Lock()
	defer f.failures.mu.Unlock()
	for ; name != "." && name != "/"; name = path.Dir(name) {
		if err, ok := f.failures.last.Get(name); ok {
			return err.Error()
		}
	}
	return ""
}

// count counts one more request that failed, and reports whether that is to be told, and
// how many requests failed so by now.
func (f *failures) count(what failure, now time.Time) (times int, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known.Get(what)
	if !ok {
		known = &failed{}
		f.known.Put(what, known, 0)
	}
	known.times++
	if tell = now.Sub(known.logged) >= failureEvery; tell {
		known.logged = now
	}
	return known.times, tell
}
