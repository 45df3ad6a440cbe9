package mixer

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

// fill keeps a sample if there is room.
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

// evict forgets a sample that another has to make room for.
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
