package store

import (
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/pipefs/pipefs/store/vfs"
)

// Reader reads one representation at one level. It is safe for concurrent use.
type Reader struct {
	parts []Part
	pack  *pack   // of all parts; nil where there are none
	ends  []int64 // offset in the representation after each part
	tail  []byte
	size  int64
	path  string
	limit int64 // where in the pack begins what is not wanted; 0 is nowhere
}

// maxRun is how much one pread fetches at most: data is checked while it is still
// in the processor's cache.
const maxRun = 4 * ChunkSize

// scratches hold chunks of which a reader wants only a piece.
var scratches = sync.Pool{New: func() any { return new([ChunkSize]byte) }}

func (p *pool) reader(rep Representation, level int) (*Reader, error) {
	n, ok := rep.parts(level)
	if !ok || n > len(rep.Parts) {
		return nil, fmt.Errorf("%s: representation %s has no level %d of %d", rep.path, rep.Key, level, len(rep.Levels))
	}
	r := &Reader{parts: rep.Parts[:n:n], ends: make([]int64, n), tail: rep.Tail, path: rep.path}
	if n < len(rep.Parts) {
		r.limit = rep.Parts[n].Off
	}
	if !p.read.Load() {
		p.read.Store(true)
	}
	for i, part := range r.parts {
		r.size += part.Len
		r.ends[i] = r.size
	}
	if n > 0 {
		var err error
		if r.pack, err = p.get(r.parts[0].Pack); err != nil {
			return nil, err
		}
	}
	r.size += int64(len(r.tail))
	return r, nil
}

// Size is the length in bytes.
func (r *Reader) Size() int64 { return r.size }

// Close lets go of the reader. Packs stay open for the next one.
func (r *Reader) Close() error { return nil }

// ReadAt fills p from offset off. The n bytes it returns have been checked; the
// rest of p is zero after an error. Data that fails the check is a
// *CorruptError. It does not allocate.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("%s: read at offset %d", r.path, off)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if off >= r.size {
		return 0, io.EOF
	}
	want := p
	if int64(len(p)) > r.size-off {
		want = p[:r.size-off]
	}
	if off == 0 {
		r.begin()
	}
	if len(want) > maxRun {
		r.fetch(off, int64(len(want)))
	}
	for n < len(want) {
		m, err := r.next(want[n:], off+int64(n))
		n += m
		if err != nil {
			clear(p[n:])
			return n, err
		}
	}
	if len(want) < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// next reads some bytes at off, which lies before the end: as many whole chunks
// as one pread gives, or a piece of one chunk, or of the tail.
func (r *Reader) next(dst []byte, off int64) (int, error) {
	body := r.size - int64(len(r.tail))
	if off >= body {
		return copy(dst, r.tail[off-body:]), nil
	}
	i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > off })
	at := off - (r.ends[i] - r.parts[i].Len) // in part i
	if at%ChunkSize == 0 {
		if run := r.run(i, at, int64(min(len(dst), maxRun))); run > 0 {
			return r.whole(dst[:run], i, at)
		}
	}
	return r.piece(dst, i, at)
}

// begin reads ahead for the samples that follow, where records hold many.
func (r *Reader) begin() {
	if r.pack == nil || !r.pack.ordered {
		return
	}
	r.pack.advise(func(a vfs.Advised) { r.pack.streams.fetch(a, r.parts, r.limit) })
}

// fetch lets the system begin with all of a read that takes several preads.
func (r *Reader) fetch(off, n int64) {
	i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > off })
	if i == len(r.ends) {
		return
	}
	at := off - (r.ends[i] - r.parts[i].Len)
	begin := at / ChunkSize * ChunkSize
	r.pack.advise(func(a vfs.Advised) { a.Fetch(r.parts[i].Off+begin, r.run(i, begin, n+at-begin)) })
}

// run is the length of the whole chunks that lie side by side in the pack from
// offset at of part i on, and fit into room bytes.
func (r *Reader) run(i int, at, room int64) int64 {
	run := int64(0)
	start := r.parts[i].Off + at
	for ; i < len(r.parts); i++ {
		p := &r.parts[i]
		if p.Off+at != start+run {
			break
		}
		left := p.Len - at
		if left > room-run {
			return run + (room-run)/ChunkSize*ChunkSize
		}
		run += left
		at = 0
	}
	return run
}

// whole reads a run of chunks straight into dst, and checks them there.
func (r *Reader) whole(dst []byte, i int, at int64) (int, error) {
	if err := r.pread(dst, r.parts[i].Off+at); err != nil {
		return 0, err
	}
	n := 0
	for n < len(dst) {
		p := &r.parts[i]
		if at == p.Len {
			i, at = i+1, 0
			continue
		}
		size := int(min(ChunkSize, p.Len-at))
		if err := r.check(dst[n:n+size], i, at/ChunkSize); err != nil {
			return n, err
		}
		n += size
		at += int64(size)
	}
	return n, nil
}

// piece reads a chunk of which only a piece is wanted.
func (r *Reader) piece(dst []byte, i int, at int64) (int, error) {
	p := &r.parts[i]
	chunk := at / ChunkSize
	begin := chunk * ChunkSize
	size := min(ChunkSize, p.Len-begin)
	scratch := scratches.Get().(*[ChunkSize]byte)
	defer scratches.Put(scratch)
	b := scratch[:size]
	if err := r.pread(b, p.Off+begin); err != nil {
		return 0, err
	}
	if err := r.check(b, i, chunk); err != nil {
		return 0, err
	}
	return copy(dst, b[at-begin:]), nil
}

// pread fills b from offset off of the pack.
func (r *Reader) pread(b []byte, off int64) error {
	f, err := r.pack.acquire()
	if err != nil {
		return err
	}
	n, err := f.ReadAt(b, off)
	r.pack.release()
	if n == len(b) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return corruptAt(r.pack.name(), off+int64(n), r.path, err)
}

// check verifies a whole chunk of part i.
func (r *Reader) check(b []byte, i int, chunk int64) error {
	p := &r.parts[i]
	if off := p.Off + chunk*ChunkSize; sum(b) != p.Sums[chunk] && !(r.again(b, off) && sum(b) == p.Sums[chunk]) {
		return corruptAt(r.pack.name(), off, r.path, errSum)
	}
	return nil
}

// again fills b once more, past the cache of a file that has one: what is there may have been
// damaged on its way or since.
func (r *Reader) again(b []byte, off int64) bool {
	f, err := r.pack.acquire()
	if err != nil {
		return false
	}
	defer r.pack.release()
	kept, ok := f.(vfs.Kept)
	if !ok {
		return false
	}
	kept.Forget(off, int64(len(b)))
	return readFull(f, b, off) == nil
}

// Fetch lets the system begin to read all of the representation, which is read soon. It is only advice.
func (r *Reader) Fetch() {
	for i := 0; i < len(r.parts); {
		off, end := r.parts[i].Off, r.parts[i].Off
		for ; i < len(r.parts) && r.parts[i].Off == end; i++ {
			end += r.parts[i].Len
		}
		r.pack.advise(func(a vfs.Advised) {
			_, piece := a.Ahead()
			for ; off < end; off += piece {
				a.Fetch(off, min(piece, end-off))
			}
		})
	}
}

// advise calls f if the pack takes advice. What is wrong with it the read itself will say.
func (k *pack) advise(f func(vfs.Advised)) {
	file, err := k.acquire()
	if err != nil {
		return
	}
	defer k.release()
	if a, ok := file.(vfs.Advised); ok {
		f(a)
	}
}

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
