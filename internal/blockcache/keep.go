package blockcache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pipefs/pipefs/internal/cachedir"
)

// keep writes what a flight has brought. It reports whether all of it is kept.
func (s *bucketCache) keep(f *flight) bool {
	s.write.Lock()
	defer s.write.Unlock()
	all := true
	for loads := f.loads; len(loads) > 0; {
		n, bytes := s.awaited(f, loads)
		if n == 0 {
			loads = loads[1:]
			continue
		}
		data := f.data[loads[0].off-f.off():][:bytes]
		if written := s.append(loads[:n], data); written < bytes {
			s.cache.skipped.Add(int64(bytes - written))
			all = false
		}
		loads = loads[n:]
	}
	return all
}

// awaited is how many of the loads of a flight, from the first one on, follow each other and were not
// given up by [Object.Forget], and how many bytes they are.
func (s *bucketCache) awaited(f *flight, loads []load) (n, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range loads {
		if l.off != loads[0].off+int64(bytes) || !slices.Contains(s.flights[l.key], f) {
			break
		}
		n, bytes = n+1, bytes+l.bytes
	}
	return n, bytes
}

// append writes neighbouring pieces and returns how many bytes of them. write is held.
func (s *bucketCache) append(loads []load, data []byte) (written int) {
	for len(loads) > 0 && s.slot != nil && time.Now().After(s.off) {
		seg, err := s.writable(int64(loads[0].bytes))
		if err != nil {
			s.failed(err)
			break
		}
		if seg == nil {
			break
		}
		n, bytes := 1, loads[0].bytes
		for n < min(len(loads), seg.entries-seg.next) && seg.end+int64(bytes+loads[n].bytes) <= s.segmentBytes {
			n, bytes = n+1, bytes+loads[n].bytes
		}
		rows, err := s.put(seg, loads[:n], data[:bytes])
		if err != nil {
			s.failed(err)
			break
		}
		if len(rows) < n {
			bytes = int(rows[0].len)
		}
		loads, data, written = loads[len(rows):], data[bytes:], written+bytes
	}
	return written
}

// put writes pieces into a segment, or the first of them if there is no room for more.
func (s *bucketCache) put(seg *segment, loads []load, data []byte) ([]entry, error) {
	if len(loads) > 1 && s.slot.Reserve(s.held+int64(len(data))) != nil {
		loads, data = loads[:1], data[:loads[0].bytes]
	}
	rows, err := seg.write(loads, data)
	if err != nil {
		return nil, err
	}
	s.held += int64(len(data))
	s.add(seg, rows)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range rows {
		if seg.mark(uint32(seg.next-len(rows)+i), int64(e.len)) {
			s.round.marked += int64(e.len)
		}
	}
	return rows, nil
}

// writable returns a segment that has room for a piece, or nil where there is to be no more.
// write is held.
func (s *bucketCache) writable(bytes int64) (*segment, error) {
	seg := s.active
	if seg != nil && (seg.next == seg.entries || seg.end+bytes > s.segmentBytes || seg.removed()) {
		seg, s.active = nil, nil
	}
	more := bytes
	if seg == nil {
		more += dataStart(s.entries)
	}
	for {
		err := s.slot.Reserve(s.held + more)
		switch {
		case errors.Is(err, cachedir.ErrFull):
			if s.reclaim() {
				if s.active == nil && seg != nil {
					return s.writable(bytes)
				}
				continue
			}
			if !s.told.full {
				s.log.Info("the cache is full: what more is read of objects is not kept", "kept_bytes", s.held)
			}
			s.told.full = true
			return nil, nil
		case err != nil:
			return nil, err
		case seg != nil:
			return seg, nil
		}
		return s.create()
	}
}

// create begins a segment. write is held.
func (s *bucketCache) create() (*segment, error) {
	path := filepath.Join(s.slot.Dir, fmt.Sprintf("%08d%s", s.number, segmentSuffix))
	seg, err := newSegment(path, s.entries)
	if err != nil {
		return nil, err
	}
	s.number++
	s.mu.Lock()
	ok := s.index.add(seg)
	s.mu.Unlock()
	if !ok {
		seg.file.Close()
		return nil, errors.Join(errors.New("too many files"), os.Remove(path))
	}
	s.known[path] = true
	s.held += seg.end
	s.active = seg
	return seg, nil
}

// round is what was read since it was last decided which segments nobody reads, in bytes.
type round struct {
	hit, missed int64
	marked      int64 // the pieces that were read, each once
}

const (
	// passes is how often what is read has been read, on average, until the rest is stale.
	// Each piece of a dataset is read once in an epoch.
	passes = 4
	// misses is how much is read for each byte that is kept until what gave no hits is stale.
	misses = 8
	// fewHits: less than this part of what was missed is none.
	fewHits = 1. / 256
	// fewRead: a segment of which no more was read is stale.
	fewRead = 1. / 8
)

// over reports whether the round tells what is stale, where so much is kept.
func (r *round) over(kept int64) bool {
	return r.hit >= max(kept, passes*r.marked) || r.missed >= misses*kept && float64(r.hit) < fewHits*float64(r.missed)
}

// reclaim removes a segment that nobody reads, and reports whether there was one. write is held.
func (s *bucketCache) reclaim() bool {
	s.mu.Lock()
	s.turn()
	var oldest *segment
	for _, seg := range s.index.segments {
		if seg != nil && seg.own && seg.stale && (oldest == nil || seg.path < oldest.path) {
			oldest = seg
		}
	}
	s.mu.Unlock()
	if oldest == nil {
		return false
	}
	if err := os.Remove(oldest.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		oldest.stale = false
		return false
	}
	s.cache.evicted.Add(oldest.live)
	s.drop(oldest)
	return true
}

// turn ends the round if it is over, and says which segments are stale. mu is held.
func (s *bucketCache) turn() {
	kept := int64(0)
	for _, seg := range s.index.segments {
		if seg != nil && seg.own {
			kept += seg.live
		}
	}
	if kept == 0 || !s.round.over(kept) {
		return
	}
	s.round = round{}
	for _, seg := range s.index.segments {
		if seg != nil && seg.own {
			seg.stale = float64(seg.fresh) <= fewRead*float64(seg.live)
			seg.fresh = 0
			clear(seg.read)
		}
	}
}
