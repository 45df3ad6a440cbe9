package fs

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pipefs/pipefs/transcode"
)

// counters of one view.
type counters struct {
	lookups, reads, begun, bytes, errors atomic.Uint64
	open                                 atomic.Int64
}

// read counts a READ that was answered.
func (c *counters) read(off uint64, n int) {
	c.reads.Add(1)
	c.bytes.Add(uint64(n))
	if off == 0 {
		c.begun.Add(1)
	}
}

// ViewStats counts what was asked of a view. What the kernel has cached it does
// not ask for.
type ViewStats struct {
	View    string `json:"view"` // all epochs of a random view are one
	Lookups uint64 `json:"lookups"`
	Reads   uint64 `json:"reads"`
	// Begun is how often a file was read from its first byte on. The kernel asks for
	// that once as long as it keeps the page; what it reads without asking counts when
	// it is opened.
	Begun  uint64 `json:"begun"`
	Bytes  uint64 `json:"bytes"`
	Errors uint64 `json:"errors"`
	// Open is the number of files that are open; in DaemonCache mode only.
	Open int64 `json:"open"`
}

// Stats of a file system.
type Stats struct {
	Views []ViewStats `json:"views"`
	// ForgottenViews counts those that were entered long ago and are no longer among
	// Views.
	ForgottenViews uint64 `json:"forgotten_views"`
	// Entries is the number of files and directories that were listed, former
	// versions of changed ones included; Known that of the files whose attributes
	// were looked at.
	Entries int `json:"entries"`
	Known   int `json:"known"`
	// Passthrough: the kernel reads memfds without asking.
	Passthrough bool      `json:"passthrough"`
	Panics      uint64    `json:"panics"`
	Freshness   Freshness `json:"freshness"`
	// Watched is the number of directories that are watched, Unwatched that of those
	// which could not be.
	Watched   int `json:"watched"`
	Unwatched int `json:"unwatched"`
}

// Stats returns the counters as they are now.
func (f *FS) Stats() Stats {
	s := Stats{
		Entries: f.tree.entries.count(), Known: f.tree.attrs.count(),
		Passthrough: f.passes.Load(), Panics: f.panics.Load(),
	}
	s.Freshness = f.fresh
	if l := f.live; l != nil {
		s.Watched = l.w.Count()
		l.mu.Lock()
		s.Unwatched = l.refused
		l.mu.Unlock()
	}
	for _, v := range f.views.all() {
		if !v.pipeline.Random() {
			s.Views = append(s.Views, v.counters.stats(v.name))
		}
	}
	f.views.mu.RLock()
	defer f.views.mu.RUnlock()
	s.ForgottenViews = f.views.forgotten
	for _, spec := range slices.Sorted(maps.Keys(f.views.drawn)) {
		s.Views = append(s.Views, f.views.drawn[spec].stats(transcode.DrawDir+"/…/"+spec))
	}
	return s
}

func (c *counters) stats(view string) ViewStats {
	return ViewStats{
		View: view, Lookups: c.lookups.Load(), Reads: c.reads.Load(), Begun: c.begun.Load(), Bytes: c.bytes.Load(),
		Errors: c.errors.Load(), Open: c.open.Load(),
	}
}
