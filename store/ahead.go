package store

import (
	"sync"

	"github.com/pipefs/pipefs/store/vfs"
)

// The system's own read-ahead knows nothing of scan groups. A reader of the first scans of
// one sample after the other would get all that lies between them from the disk, megabytes
// at a time. So packs are opened without read-ahead. Where records hold many samples that
// are read in order, each scan group is a stream that is read ahead by itself, up to the
// last scan group that is wanted.

const (
	// window is how far the streams of a pack are read ahead, all together, and least
	// how far each of them is at least.
	window = 512 << 10
	least  = 128 << 10
	// near is how far apart two samples are at most that are read one after the other,
	// by several readers perhaps: a distance in the first group.
	near = 1 << 20
	// advice is how much the system takes at once: some cut the rest off.
	advice = 128 << 10
)

// streams are where a pack is read. The zero value is ready.
type streams struct {
	mu   sync.Mutex
	used bool
	last int64 // where the sample began that was read before
	// What was fetched of each part's stream, as offsets, and by how many parts were
	// read where the groups of the record end that are wanted.
	from, to, ends []int64
}

// fetch reads ahead for a sample whose parts are given. Its part that is not wanted
// begins at limit; 0 is none.
func (s *streams) fetch(f vfs.Advised, parts []Part, limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	off := parts[0].Off
	apart := off - s.last
	follows := s.used && apart != 0 && -near < apart && apart < near
	s.used, s.last = true, off
	if !follows {
		return
	}
	for len(s.to) < len(parts) {
		s.from, s.to, s.ends = append(s.from, 0), append(s.to, 0), append(s.ends, 0)
	}
	// The group that is not wanted begins before the sample's part of it: the less so,
	// the nearer the sample is to the beginning of the record.
	if end := &s.ends[len(parts)-1]; limit > 0 && (*end <= off || limit < *end) {
		*end = limit
	} else if limit > 0 {
		limit = *end
	}
	share := max(least, int64(window/len(parts)))
	for i := range parts {
		p := &parts[i]
		begin, end := p.Off, p.Off+share
		if limit > 0 {
			end = min(end, limit)
		}
		if s.from[i] <= begin && begin <= s.to[i] {
			if s.to[i] >= min(end, p.Off+p.Len+share/2) {
				continue
			}
			begin = s.to[i]
		} else {
			s.from[i] = begin
		}
		s.to[i] = end
		for ; begin < end; begin += advice {
			f.Fetch(begin, min(advice, end-begin))
		}
	}
}
