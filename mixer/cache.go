package mixer

import (
	"fmt"
	"slices"
	"strings"
)

// Cache decides which samples stay in memory. It holds no bytes itself: who owns
// them tells it of every open of a sample and does as it says. It is not safe for
// concurrent use, and keeps no more than a few bytes for each sample.
//
// Keys are numbers that are never used for another sample. They should be dense in
// each range of 256, as ids given out in turn are: memory is taken by such ranges.
type Cache interface {
	// Open tells that a sample that takes cost bytes is opened, whether it is kept
	// or has to be fetched. It returns whether the sample is to be kept from now on,
	// and what else must go. What was kept and is not to be kept any more has been
	// forgotten already: it lasts until its readers have done. The slice is valid
	// until the next call, and never names the sample itself.
	Open(key uint64, cost int64) (keep bool, evict []uint64)
	// Drop tells that a sample is not kept after all: there was no memory for it, or
	// it is not wanted any more.
	Drop(key uint64)
	// SetTotal tells how many samples there are at most; 0: nobody knows. It may be
	// told at any time, and again.
	SetTotal(n int)
	// Stats returns what was counted.
	Stats() CacheStats
}

// CacheStats is what a Cache has done, and what it holds.
type CacheStats struct {
	Policy string `json:"policy"`
	// Hits and Misses are opens of samples that were kept, and of those that were not.
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	// HitBytes and MissBytes are their sizes.
	HitBytes  int64 `json:"hit_bytes"`
	MissBytes int64 `json:"miss_bytes"`
	// Evictions are samples that were kept and had to go.
	Evictions int64 `json:"evictions"`
	// Samples and Bytes are kept now.
	Samples int   `json:"samples"`
	Bytes   int64 `json:"bytes"`

	// What follows is of Liquid alone. CurrentBytes are kept for the rest of this
	// epoch, and NextBytes for the next one.
	CurrentBytes int64 `json:"current_bytes"`
	NextBytes    int64 `json:"next_bytes"`
	// Epoch counts from 1.
	Epoch int `json:"epoch"`
	// Population is the number of samples of an epoch, and Sampled that of those
	// that were opened in this one. In the first epoch Population is the total that
	// was told.
	Population int `json:"population"`
	Sampled    int `json:"sampled"`
	// Off says why epochs cannot be told apart; empty while they can. Liquid then
	// goes on as MinIO.
	Off string `json:"off,omitempty"`
}

// The cache policies.
const (
	// LRUCache keeps what was opened last.
	LRUCache = "lru"
	// MinIOCache keeps what came first, and never replaces it (CoorDL, VLDB 2021,
	// section 4.1).
	MinIOCache = "minio"
	// LiquidCache keeps the hit ratio constant (Liquid, APSys 2023, section 4.2).
	LiquidCache = "liquid"
)

// CachePolicies are the names of all policies.
var CachePolicies = []string{LiquidCache, MinIOCache, LRUCache}

// NewCache returns a cache that keeps at most so many bytes, in at most so many
// samples: each takes a descriptor.
func NewCache(policy string, bytes int64, samples int) (Cache, error) {
	k := newKept(policy, bytes, samples)
	switch policy {
	case LRUCache:
		return &lru{kept: k}, nil
	case MinIOCache:
		return &minio{k}, nil
	case LiquidCache:
		return newLiquid(k), nil
	}
	return nil, fmt.Errorf("cache policy %q: must be one of %s", policy, strings.Join(slices.Sorted(slices.Values(CachePolicies)), ", "))
}

// NewNewest is the policy [LRUCache], but what was opened last stays even where it alone
// is over the budget: it is about to be read.
func NewNewest(bytes int64, samples int) Cache {
	return &lru{kept: newKept(LRUCache, bytes, samples), newest: true}
}

// lru replaces what was not opened for the longest time.
type lru struct {
	kept
	newest bool
}

// Open implements [Cache].
func (l *lru) Open(key uint64, cost int64) (keep bool, evict []uint64) {
	at := l.opened(key, cost)
	switch {
	case at != none:
		l.unlink(at)
		l.link(at, older)
		return true, nil
	case !l.newest && (cost > l.maxBytes || l.maxSamples < 1):
		return false, nil
	}
	for !l.fits(cost) && len(l.index) > 0 {
		l.evict(l.slots[older].next)
	}
	l.insert(key, cost, older)
	return true, l.evicted
}

// SetTotal implements [Cache].
func (l *lru) SetTotal(int) {}

// minio never replaces anything: of a dataset that is read in a new order each
// epoch any part is as good as any other, and a part that stays gives hits.
type minio struct{ kept }

// Open implements [Cache].
func (m *minio) Open(key uint64, cost int64) (keep bool, evict []uint64) {
	if m.opened(key, cost) != none {
		return true, nil
	}
	return m.fill(key, cost), nil
}

// SetTotal implements [Cache].
func (m *minio) SetTotal(int) {}
