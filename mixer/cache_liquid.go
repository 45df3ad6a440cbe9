package mixer

import "math"

// liquid keeps the hit ratio constant: budget/dataset, in each part of each epoch
// (Liquid, APSys 2023, section 4.2). What it keeps is of two regions: samples of
// the current epoch that were not opened yet, and samples for the next one. Each
// sample that is opened, kept before or not, is promoted to the next epoch's region
// or given up, at a rate that fills the region by the end of the epoch; then it is
// the current one.
//
// The paper moves a constant number of images of a batch; B·S/N is a fraction, of
// which the remainder is carried here, and sizes differ, so the rate is corrected by
// what the region lacks in bytes. The paper's buffers choose which sample is read
// next; here the loader does, so nothing is fetched ahead.
//
// The list `newer` is the next epoch's region. In `older` are the current one's, and
// before them those that no epoch has asked for. In `spent` are samples that were
// given up when they were opened: some readers open a file twice.
type liquid struct {
	kept
	epochs    epochs
	nextBytes int64
	opens     uint32
	// Samples are promoted at random, one of each 1/rate: due counts them, and the
	// next one is promoted when it passes threshold.
	due, threshold float64
	done           float64
	random         uint64
}

// settle is the number of samples in which a lack or a surplus is made up for.
const settle = 32

const (
	// bunch bounds how many samples go at once without need.
	bunch = 64
	// linger is how many opens later a sample that was given up goes.
	linger = 64
	// given is the epoch of such a sample.
	given = math.MaxInt32
)

func newLiquid(k kept) *liquid {
	l := &liquid{kept: k, epochs: newEpochs()}
	l.draw()
	return l
}

// Open implements [Cache].
func (l *liquid) Open(key uint64, cost int64) (keep bool, evict []uint64) {
	at := l.opened(key, cost)
	if l.epochs.off != "" {
		return at != none || l.fill(key, cost), nil
	}
	weight := cost
	if cost > l.maxBytes {
		weight = 0 // no part of what a share can be kept of
	}
	what, over := l.epochs.open(key, weight)
	if over {
		if l.turn(); l.epochs.off == "" {
			what, _ = l.epochs.open(key, weight)
		} else {
			what = again
		}
	}
	l.opens++
	if what == first {
		keep = l.sampled(at, key, cost)
	} else {
		keep = at != none
	}
	for range bunch {
		if !l.collect(linger, key) {
			break
		}
	}
	return keep, l.evicted
}

// sampled promotes a sample that is opened in its turn, or gives it up, and reports
// whether it is kept for now.
func (l *liquid) sampled(at int32, key uint64, cost int64) (keep bool) {
	promote := l.promotes()
	switch {
	case at != none:
		l.leave(at)
		l.unlink(at)
		if !promote {
			l.slots[at].epoch, l.slots[at].at = given, l.opens
			l.link(at, spent)
			return true
		}
		l.link(at, newer)
	case !promote || !l.room(key, cost):
		return false
	default:
		at = l.insert(key, cost, newer)
	}
	l.slots[at].epoch = l.now()
	l.nextBytes += cost
	l.done++
	l.draw()
	return true
}

// promotes reports whether a sample is due. It is called after the epoch took note
// of the sample.
func (l *liquid) promotes() bool {
	e := &l.epochs
	rate := 1.0
	if total := e.totalBytes(); total > 0 {
		// Some room is for those that linger.
		bytes := float64(l.maxBytes)
		if bytes < total {
			bytes -= min(bytes/128, linger/4*e.mean)
		}
		rate = min(1, bytes/total, float64(l.maxSamples)/float64(e.population()))
	}
	lack := 0.0
	if e.mean > 0 {
		lack = (rate*float64(e.bytes) - float64(l.nextBytes)) / (settle * e.mean)
	}
	l.due += min(1, max(0, rate+lack))
	// What could not be promoted, for want of room, is made up for by the lack.
	l.due = min(l.due, l.done+1)
	return l.due > l.threshold
}

// draw chooses where in the next interval of 1/rate samples one is promoted: in a
// fixed rhythm a dataset that alternates large and small samples would have but one
// kind of them kept.
func (l *liquid) draw() {
	// splitmix64
	l.random += 0x9e3779b97f4a7c15
	z := l.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	l.threshold = l.done + float64(z>>11)/(1<<53)
}

// room makes room for a sample from those that nobody will ask for, and reports
// whether it fits.
func (l *liquid) room(key uint64, cost int64) bool {
	for !l.fits(cost) && l.collect(0, key) {
	}
	return l.fits(cost)
}

// collect lets go of one sample that no epoch asked for, or that was given up at least
// so many opens ago; but not of one that is being opened.
func (l *liquid) collect(ago uint32, opened uint64) (any bool) {
	at := l.slots[older].next
	if at == older || l.slots[at].epoch >= l.now()-1 || l.slots[at].key == opened {
		at = l.slots[spent].next
		if at == spent || l.opens-l.slots[at].at < ago || l.slots[at].key == opened {
			return false
		}
	}
	l.evict(at)
	return true
}

// turn begins the next epoch.
func (l *liquid) turn() {
	l.nextBytes = 0
	l.join()
	l.due, l.done = 0, 0
	l.draw()
	l.epochs.turn(func(key uint64, cost int64) {
		if at := l.find(key); at != none {
			l.sampled(at, key, cost)
		}
	})
	if l.epochs.off != "" {
		l.epochs = epochs{off: l.epochs.off, number: l.epochs.number + 1} // without its memory, and nothing is promoted in it
	}
}

// now is the number of this epoch.
func (l *liquid) now() int32 { return int32(l.epochs.number) }

// leave takes a sample out of the count of its region.
func (l *liquid) leave(at int32) {
	if l.slots[at].epoch == l.now() {
		l.nextBytes -= l.slots[at].cost
	}
}

// Drop implements [Cache].
func (l *liquid) Drop(key uint64) {
	if at := l.find(key); at != none {
		l.leave(at)
		l.remove(at)
	}
}

// SetTotal implements [Cache].
func (l *liquid) SetTotal(n int) { l.epochs.total = n }

// Stats implements [Cache].
func (l *liquid) Stats() CacheStats {
	s := l.kept.Stats()
	s.CurrentBytes, s.NextBytes = l.bytes-l.nextBytes, l.nextBytes
	s.Epoch, s.Population, s.Sampled, s.Off = l.epochs.number, l.epochs.population(), l.epochs.sampled, l.epochs.off
	return s
}
