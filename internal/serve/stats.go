package serve

import (
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/mixer"
)

type counters struct {
	hits, opened, produced, rebuilt, kept, unkept, failed, panics, busy atomic.Int64
	raw, encoded, spared, fetched                                       atomic.Int64
}

// Stats is what a producer has done since it was made.
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

	// Cache is what the cache's policy has counted; nil where there is none.
	Cache      *mixer.CacheStats `json:"cache,omitempty"`
	Mix        MixStats          `json:"mix"`
	Background BackgroundStats   `json:"background"`
}

// MixStats is what was read from, where there was a choice.
type MixStats struct {
	Raw     int64   `json:"raw"`     // opened from what is stored in full
	Encoded int64   `json:"encoded"` // made of something shorter
	Spared  int64   `json:"spared"`  // copies that could not be read, and were made again
	Share   float64 `json:"share"`   // of raw reads, that is aimed at
}

// BackgroundStats is how far the preparation has come.
type BackgroundStats struct {
	View     string `json:"view"`     // being prepared; empty when idle
	Seen     int64  `json:"seen"`     // samples looked at
	Prepared int64  `json:"prepared"` // samples made
	Full     bool   `json:"full"`     // nothing more can be kept
}

// Stats returns the counters.
func (p *Server) Stats() Stats {
	s := Stats{
		Hits: p.stats.hits.Load(), Opened: p.stats.opened.Load(), Produced: p.stats.produced.Load(), Rebuilt: p.stats.rebuilt.Load(),
		Kept: p.stats.kept.Load(), Unkept: p.stats.unkept.Load(), Failed: p.stats.failed.Load(), Panics: p.stats.panics.Load(),
		BusySeconds: time.Duration(p.stats.busy.Load()).Seconds(),
		MemoryBytes: p.memfds.held.Load(), FetchedBytes: p.stats.fetched.Load(), Cache: p.ruled.stats(),
		Mix: MixStats{
			Raw: p.stats.raw.Load(), Encoded: p.stats.encoded.Load(), Spared: p.stats.spared.Load(), Share: 1,
		},
		Background: BackgroundStats{
			Seen: p.background.seen.Load(), Prepared: p.background.prepared.Load(), Full: p.full.Load() != 0,
		},
	}
	s.Refused = p.refusals.list()
	if m, ok := p.o.Policy.(interface{ Share() float64 }); ok {
		s.Mix.Share = m.Share()
	}
	if view := p.background.view.Load(); view != nil {
		s.Background.View = *view
	}
	if p.o.Overlay != nil {
		s.OverlayBytes, s.ReclaimedBytes = p.o.Overlay.Bytes(), p.o.Overlay.Reclaimed()
	}
	return s
}
