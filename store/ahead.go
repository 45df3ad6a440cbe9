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
	// near is how far apart two samples are at most that are read one after the other, by
	// several readers perhaps: a distance in the first group, in bytes.
	near = 1 << 20
	// readOn is how many samples are read one after the other until a reader who goes behind the
	// last one of their record is taken to read on, in the next record.
	readOn = 8
)

// streams are where a pack is read. The zero value is ready.
type streams struct {
	mu      sync.Mutex
	used    bool
	last    int64 // where the sample began that was read before
	end     int64 // where its last part ended
	ordered int   // how many samples were read in order
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
	switch {
	case s.used && apart == 0:
		return // the same one again
	case s.used && -near < apart && apart < near:
		s.ordered++
	case s.ordered < readOn || off < s.end:
		s.ordered = 0
	}
	last := parts[len(parts)-1]
	s.used, s.last, s.end = true, off, last.Off+last.Len
	if s.ordered == 0 {
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
	window, piece := f.Ahead()
	share := max(piece, window/int64(len(parts)))
	var from, to int64 // what is to be fetched: of neighbouring parts, once
	flush := func() {
		for ; from < to; from += piece {
			f.Fetch(from, min(piece, to-from))
		}
	}
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
			if n := end - begin; n > piece && end != limit {
				end = begin + n/piece*piece // the rest would be a request of its own
			}
		} else {
			s.from[i] = begin
		}
		s.to[i] = end
		if begin < from || begin > to {
			flush()
			from, to = begin, begin
		}
		to = max(to, end)
	}
	flush()
}
