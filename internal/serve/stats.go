package serve

import (
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/mixer"
)

type counters struct {
	hits, opened, produced, rebuilt, kept, unkept, failed, panics, busy atomic.Int64
	materialized, computed, fallbacks, fetched                          atomic.Int64
}

// Stats is what a server has done since it was made.
type Stats struct {
	Hits     int64 `json:"hits"`     // reads of content that was open
	Opened   int64 `json:"opened"`   // contents opened
	Produced int64 `json:"produced"` // results made
	Rebuilt  int64 `json:"rebuilt"`  // of these, originals
	Kept     int64 `json:"kept"`     // of those made, put into the overlay
	Unkept   int64 `json:"unkept"`   // not put there: the disk was too slow
	Failed   int64 `json:"failed"`   // results that could not be made
	Panics   int64 `json:"panics"`
	// BusySeconds is the time that workers spent computing, all of them together.
	BusySeconds float64 `json:"busy_seconds"`
	MemoryBytes int64   `json:"memory_bytes"` // held in memfds
	// FetchedBytes were read from the dataset, the store and the overlay.
	FetchedBytes int64 `json:"fetched_bytes"`
	// OverlayBytes is what is kept on disk.
	OverlayBytes int64 `json:"overlay_bytes"`
	// ReclaimedBytes were given back of it: nothing can ask for them any more.
	ReclaimedBytes int64 `json:"reclaimed_bytes"`

	// Refused are the directories that views refused.
	Refused []*Refusal `json:"refused,omitempty"`
	// Unfit is how many samples were refused by themselves, each counted once a view.
	Unfit int64 `json:"unfit,omitempty"`

	// Cache is what the cache's policy has counted; nil where there is none.
	Cache *mixer.CacheStats `json:"cache,omitempty"`
	Mix   MixStats          `json:"mix"`
	// Full: nothing more can be kept.
	Full bool `json:"full"`
}

// MixStats is what was read from, where there was a choice.
type MixStats struct {
	Materialized int64   `json:"materialized"` // opened from what is materialized
	Computed     int64   `json:"computed"`     // computed from something shorter
	Fallbacks    int64   `json:"fallbacks"`    // copies that could not be read, and were made again
	Share        float64 `json:"share"`        // of materialized reads, that is aimed at
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	c := &s.stats
	s.refusals.mu.Lock()
	unfit := int64(len(s.refusals.unfit))
	s.refusals.mu.Unlock()
	stats := Stats{
		Hits: c.hits.Load(), Opened: c.opened.Load(), Produced: c.produced.Load(), Rebuilt: c.rebuilt.Load(),
		Kept: c.kept.Load(), Unkept: c.unkept.Load(), Failed: c.failed.Load(), Panics: c.panics.Load(),
		BusySeconds: time.Duration(c.busy.Load()).Seconds(),
		MemoryBytes: s.memfds.held.Load(), FetchedBytes: c.fetched.Load(), Cache: s.cache.stats(),
		Mix: MixStats{
			Materialized: c.materialized.Load(), Computed: c.computed.Load(), Fallbacks: c.fallbacks.Load(), Share: s.o.Policy.Share(),
		},
		Full: s.keeper.full.Load() != 0, Refused: s.refusals.list(), Unfit: unfit,
	}
	if s.o.Overlay != nil {
		stats.OverlayBytes, stats.ReclaimedBytes = s.o.Overlay.Bytes(), s.o.Overlay.Reclaimed()
	}
	return stats
}
