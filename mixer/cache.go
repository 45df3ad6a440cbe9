package mixer

import (
	"fmt"
	"slices"
	"strings"
)

// kept is the set of samples that are kept, in up to three lists. It leaves no
// garbage once it has grown.
type kept struct {
	index      map[uint64]int32
	slots      []slot // the first ones are the ends of the lists
	free       int32  // the first unused slot, linked by next; none at the end
	bytes      int64
	maxBytes   int64
	maxSamples int
	evicted    []uint64 // what Open returns
	stats      CacheStats
}

// slot is one kept sample.
type slot struct {
	key        uint64
	cost       int64
	prev, next int32
	epoch      int32  // for Liquid: in which it was promoted
	at         uint32 // for Liquid: the open with which it was given up
}

// The lists, by the slots that are their ends. The next of an end is the oldest.
const (
	older int32 = 0
	newer int32 = 1
	spent int32 = 2
	none  int32 = -1
)

func newKept(policy string, bytes int64, samples int) kept {
	ends := []slot{older: {prev: older, next: older}, newer: {prev: newer, next: newer}, spent: {prev: spent, next: spent}}
	return kept{
		index: map[uint64]int32{}, slots: ends, free: none,
		maxBytes: bytes, maxSamples: samples, stats: CacheStats{Policy: policy},
	}
}

// opened begins an Open: it counts, and finds the sample; none where it is not
// kept.
func (k *kept) opened(key uint64, cost int64) int32 {
	k.evicted = k.evicted[:0]
	at := k.find(key)
	if at == none {
		k.stats.Misses++
		k.stats.MissBytes += cost
		return none
	}
	k.stats.Hits++
	k.stats.HitBytes += cost
	return at
}

// find returns the slot of a sample; none where it is not kept.
func (k *kept) find(key uint64) int32 {
	if at, ok := k.index[key]; ok {
		return at
	}
	return none
}

func (k *kept) fits(cost int64) bool {
	return k.bytes+cost <= k.maxBytes && len(k.index) < k.maxSamples
}

// fill keeps a sample if it fits.
func (k *kept) fill(key uint64, cost int64) bool {
	if !k.fits(cost) {
		return false
	}
	k.insert(key, cost, older)
	return true
}

func (k *kept) insert(key uint64, cost int64, list int32) int32 {
	at := k.free
	if at == none {
		at = int32(len(k.slots))
		k.slots = append(k.slots, slot{})
	} else {
		k.free = k.slots[at].next
	}
	k.slots[at] = slot{key: key, cost: cost}
	k.index[key] = at
	k.bytes += cost
	k.link(at, list)
	return at
}

// link makes a slot the newest of a list.
func (k *kept) link(at, list int32) {
	last := k.slots[list].prev
	k.slots[at].prev, k.slots[at].next = last, list
	k.slots[last].next, k.slots[list].prev = at, at
}

func (k *kept) unlink(at int32) {
	s := &k.slots[at]
	k.slots[s.prev].next, k.slots[s.next].prev = s.next, s.prev
}

// remove forgets a sample.
func (k *kept) remove(at int32) {
	s := &k.slots[at]
	k.unlink(at)
	delete(k.index, s.key)
	k.bytes -= s.cost
	s.next, k.free = k.free, at
}

// evict forgets a sample that another replaces.
func (k *kept) evict(at int32) {
	k.evicted = append(k.evicted, k.slots[at].key)
	k.stats.Evictions++
	k.remove(at)
}

// join appends the newer list to the older one and leaves it empty.
func (k *kept) join() {
	first, last := k.slots[newer].next, k.slots[newer].prev
	if first == newer {
		return
	}
	end := k.slots[older].prev
	k.slots[end].next, k.slots[first].prev = first, end
	k.slots[last].next, k.slots[older].prev = older, last
	k.slots[newer].next, k.slots[newer].prev = newer, newer
}

// Drop implements [Cache].
func (k *kept) Drop(key uint64) {
	if at := k.find(key); at != none {
		k.remove(at)
	}
}

// Stats implements [Cache].
func (k *kept) Stats() CacheStats {
	s := k.stats
	s.Samples, s.Bytes = len(k.index), k.bytes
	return s
}

// seen is what is known of each sample that was ever opened: five bytes.
type seen struct {
	pages map[uint64]*seenPage
	// The page that was used last, which is often the one that is used next.
	last *seenPage
	at   uint64
}

const (
	seenBits = 8
	seenLen  = 1 << seenBits
)

type seenPage struct {
	// stamp is the number of the open of this epoch that was the sample's last, from
	// 1; 0: it was not opened in this epoch.
	stamp [seenLen]uint32
	flags [seenLen]uint8
}

const (
	// isMember: the sample belongs to the population, what an epoch reads.
	isMember uint8 = 1 << iota
	// wasSeen: it was opened in the epoch before.
	wasSeen
	// wasMissed: it belongs to the population, but was not opened in the epoch before.
	wasMissed
)

func newSeen() seen { return seen{pages: map[uint64]*seenPage{}} }

// page returns the page of a key, and the key's place in it.
func (s *seen) page(key uint64) (*seenPage, int) {
	n := key >> seenBits
	if s.last == nil || s.at != n {
		p := s.pages[n]
		if p == nil {
			p = &seenPage{}
			s.pages[n] = p
		}
		s.last, s.at = p, n
	}
	return s.last, int(key & (seenLen - 1))
}

// turn ends an epoch: it says who belongs to the next one's population, forgets who
// was opened, and returns the size of the population. Everybody who is seen in the
// first epoch belongs to it. Later ones have to be seen in two epochs in a row: a
// look at other samples in between is no reason to wait for them for ever. Who is
// missed twice in a row does not belong to it any more; once may be a loader that
// drops its last batch. Where moved is true both rules are off: the population is
// what was seen.
func (s *seen) turn(first, moved bool) (members int) {
	s.last = nil
	for n, p := range s.pages {
		before := members
		for i, stamp := range p.stamp {
			f := p.flags[i]
			switch {
			case stamp != 0 && (first || moved || f&(isMember|wasSeen) != 0):
				f = isMember | wasSeen
			case stamp != 0:
				f = wasSeen
			case f&isMember != 0 && f&wasMissed == 0 && !moved:
				f = isMember | wasMissed
			default:
				f = 0
			}
			if f&isMember != 0 {
				members++
			}
			p.flags[i] = f
		}
		clear(p.stamp[:])
		if members == before && p.flags == [seenLen]uint8{} {
			delete(s.pages, n)
		}
	}
	return members
}

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
