package blockcache

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/cachedir"
)

// bucketCache holds what is kept of one place of objects.
type bucketCache struct {
	cache *Cache
	log   *slog.Logger
	slot  *cachedir.Slot // nil: nothing can be kept

	mu      sync.Mutex
	index   index
	flights map[key][]*flight // by the blocks of which they bring something
	round   round

	// write is held while segments are written, added and removed; it comes before mu.
	write  sync.Mutex
	active *segment // the one that is appended to
	held   int64    // bytes of the segments of the slot
	number int      // of the next segment
	known  map[string]bool
	off    time.Time // nothing is written until then
	told   struct{ failed, full bool }

	segmentBytes int64
	entries      int // of a segment
}

// A slot has about segments of them, so that what is removed at once is a small part, and that
// counting what is there is quick.
const (
	segments            = 64
	leastSegment  int64 = 1 << 20
	mostSegment   int64 = 1 << 30
	bytesPerEntry       = 16 << 10 // of a segment: pieces may be shorter than blocks
)

// patience is how long a mount waits for the index of what is kept: about two million pieces.
const patience = time.Second

// again is how long nothing is written after an error.
const again = 30 * time.Second

func newBucketCache(c *Cache, place string) *bucketCache {
	s := &bucketCache{cache: c, log: c.log.With("of", place), flights: map[key][]*flight{}, known: map[string]bool{}}
	if c.root == nil {
		return s
	}
	slot, err := c.root.TakeBlocks(place, c.o.Mount, c.o.MaxBytes)
	if err == nil {
		if err = os.MkdirAll(slot.Dir, 0o700); err != nil {
			slot.Release()
		}
	}
	if err != nil {
		s.failed(err)
		return s
	}
	s.slot = slot
	most := c.o.MaxBytes
	if limit, _, err := c.root.Limit(); err == nil && (most == 0 || limit < most) {
		most = limit
	}
	s.segmentBytes = min(max(most/segments, leastSegment), mostSegment)
	s.entries = int(min(max(s.segmentBytes/bytesPerEntry, fewestEntries), mostEntries))
	loaded := make(chan struct{})
	c.work.Go(func() {
		s.refresh()
		close(loaded)
	})
	// Until the index of a large cache is there, what is read is fetched.
	select {
	case <-loaded:
	case <-time.After(patience):
	}
	return s
}

// failed tells the log once that nothing can be kept.
func (s *bucketCache) failed(err error) {
	s.off = time.Now().Add(again)
	if !s.told.failed {
		s.log.Warn("what is read of objects cannot be kept on the disk; reading goes on without", "cause", err)
	}
	s.told.failed = true
}

// found is a run of pieces that lie one behind the other in an object and in a segment.
type found struct {
	segment *segment // nil: the first one is missing
	start   int64    // in the object
	off     uint32   // in the segment
	bytes   int      // of all of them
	n       int
	keys    [run]key
	lengths [run]int
	sums    [run]uint32
	refs    [run]ref
}

// run is how many pieces are found, and read, at once.
const run = 4

// find looks for what is kept of the n bytes of an object from off on: a piece that has the first
// one, or several of which all is wanted. Where there is none, it returns the flight that brings the
// first byte, if there is one.
func (s *bucketCache) find(o *Object, off int64, n int) (f found, _ *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := off
	for f.n < run {
		unit := at / unitBytes
		block := unit / blockUnits
		k := o.key(block)
		r := s.index.find(k.hi, within(block, unit, unit))
		if r == empty {
			break
		}
		seg, i := s.index.at(r)
		p := seg.pieces[i]
		start, length := block*blockBytes+int64(p.first)*unitBytes, o.length(block, p)
		whole := start == at && at+int64(length) <= off+int64(n)
		if f.n > 0 && (!whole || seg != f.segment || seg.offs[i] != f.off+uint32(f.bytes)) {
			break
		}
		if seg.own && seg.mark(i, int64(length)) {
			s.round.marked += int64(length)
		}
		if f.n == 0 {
			f.segment, f.start, f.off = seg, start, seg.offs[i]
		}
		f.keys[f.n], f.lengths[f.n], f.sums[f.n], f.refs[f.n] = k, length, seg.sums[i], r
		f.bytes += length
		f.n++
		if at = start + int64(length); !whole || at == off+int64(n) {
			break
		}
	}
	if f.n > 0 {
		s.round.hit += min(at-off, int64(n))
		return f, nil
	}
	unit := off / unitBytes
	for _, flight := range s.flights[o.key(unit/blockUnits)] {
		if flight.first <= unit && unit <= flight.last {
			s.round.missed += min(flight.end()-off, int64(n))
			return f, flight
		}
	}
	return f, nil
}

// damaged drops a piece of length bytes that is not what was written to a segment.
func (s *bucketCache) damaged(seg *segment, r ref, length int) {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	// It may be gone meanwhile with all of its segment, which is no damage.
	there := s.index.segments[seg.id] == seg && s.index.drop(r)
	if there {
		seg.live -= int64(length)
	}
	s.mu.Unlock()
	if !there {
		return
	}
	seg.blank(r & (1<<idShift - 1))
	if s.cache.damaged.Add(1) == 1 {
		s.log.Warn("a block of the cache is damaged; it is fetched again, as are all such", "file", seg.path)
	}
}

// forget drops what is kept of some units of a block, and what is on its way of the block.
func (s *bucketCache) forget(o *Object, block int64, any units) {
	k := o.key(block)
	for {
		s.mu.Lock()
		delete(s.flights, k)
		r := s.index.find(k.hi, any)
		if r == empty {
			s.mu.Unlock()
			return
		}
		seg, i := s.index.at(r)
		p := seg.pieces[i]
		s.mu.Unlock()
		s.damaged(seg, r, o.length(block, p))
	}
}

// land forgets a flight. One whose bytes could not be kept is remembered for a while: a reader
// may want them piece by piece.
func (s *bucketCache) land(f *flight, kept bool) {
	c := s.cache
	var gone []*flight
	if kept || f.err != nil {
		gone = append(gone, f)
	} else {
		c.recentMu.Lock()
		c.recent = append(c.recent, f)
		c.recentBytes += f.size()
		for c.recentBytes > c.recentMost && len(c.recent) > 1 {
			gone = append(gone, c.recent[0])
			c.recentBytes -= c.recent[0].size()
			c.recent = c.recent[1:]
		}
		c.recentMu.Unlock()
	}
	for _, f := range gone {
		f.object.bucket.unlist(f)
	}
}

func (s *bucketCache) unlist(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range f.loads {
		listed := s.flights[l.key]
		i := slices.Index(listed, f)
		switch {
		case i < 0:
		case len(listed) == 1:
			delete(s.flights, l.key)
		default:
			s.flights[l.key] = slices.Delete(listed, i, i+1)
		}
	}
}

// kept is the size of the segments, bytes.
func (s *bucketCache) kept() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.index.segments {
		if seg != nil {
			n += seg.live
		}
	}
	return n
}

// refresh looks at the slots of the place: segments that other processes wrote are added, and
// those that somebody removed are closed, so that their space is free.
func (s *bucketCache) refresh() {
	if s.slot == nil {
		return
	}
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	segments := append([]*segment(nil), s.index.segments...)
	s.mu.Unlock()
	for _, seg := range segments {
		switch {
		case seg == nil:
		case seg.removed():
			s.drop(seg)
		case !seg.own:
			s.load(seg, false)
		}
	}
	slots, err := s.slot.Beside()
	if err != nil {
		return
	}
	for _, dir := range slots {
		names, _ := os.ReadDir(dir)
		for _, name := range names {
			if path := filepath.Join(dir, name.Name()); filepath.Ext(path) == segmentSuffix && !s.known[path] {
				s.open(path, dir == s.slot.Dir)
			}
		}
	}
}

// open adds a segment that is there. write is held.
func (s *bucketCache) open(path string, own bool) {
	seg, err := openSegment(path, own)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		s.known[path] = true // it is not looked at again
		if own {
			_ = os.Remove(path)
		}
		return
	}
	s.known[path] = true
	s.mu.Lock()
	ok := s.index.add(seg)
	s.mu.Unlock()
	if !ok || !s.load(seg, own) {
		s.drop(seg)
		return
	}
	if !own {
		return
	}
	var number int
	if _, err := fmt.Sscanf(filepath.Base(path), "%d", &number); err == nil {
		s.number = max(s.number, number+1)
	}
	if info, err := seg.file.Stat(); err == nil {
		seg.end = max(seg.end, info.Size())
	}
	s.held += seg.end
	if s.active == nil || seg.next < s.active.next {
		s.active = seg // perhaps there is room in it
	}
}

// load reads the rows of a segment that are new. write is held.
func (s *bucketCache) load(seg *segment, all bool) bool {
	rows, err := seg.more(all)
	if err != nil {
		return false
	}
	s.add(seg, rows)
	return true
}

// add enters rows that follow the ones that are known. write is held.
func (s *bucketCache) add(seg *segment, rows []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg.extend(len(rows))
	for _, e := range rows {
		i := uint32(seg.next)
		seg.next++
		seg.his, seg.pieces = append(seg.his, e.hi), append(seg.pieces, e.piece())
		seg.offs, seg.sums = append(seg.offs, e.off), append(seg.sums, e.sum)
		if e.hi == 0 {
			continue
		}
		seg.live += int64(e.len)
		seg.end = max(seg.end, int64(e.off)+int64(e.len))
		if old := s.index.put(seg.id<<idShift | i); old != empty {
			other, _ := s.index.at(old)
			other.live -= int64(e.len)
		}
	}
}

// drop closes a segment that is or will be removed, and forgets its pieces. write is held.
func (s *bucketCache) drop(seg *segment) {
	s.mu.Lock()
	for i, hi := range seg.his {
		if hi != 0 {
			s.index.drop(seg.id<<idShift | uint32(i))
		}
	}
	s.index.segments[seg.id] = nil
	s.round.marked -= seg.fresh
	s.mu.Unlock()
	seg.file.Close()
	delete(s.known, seg.path)
	if seg.own {
		s.held -= seg.end
	}
	if s.active == seg {
		s.active = nil
	}
}

func (s *bucketCache) close() {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	for _, seg := range s.index.segments {
		if seg != nil {
			seg.file.Close()
		}
	}
	s.mu.Unlock()
	if s.slot != nil {
		s.slot.Release()
	}
}
