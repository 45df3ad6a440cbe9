package mixer

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
