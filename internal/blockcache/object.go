package blockcache

import (
	"context"
	"io"
	"math/bits"
	"sync"

	"github.com/pipefs/pipefs/store/blob"
)

// Object is one version of an object, open for reading. It is safe for concurrent use.
type Object struct {
	from   blob.Objects
	info   blob.Info
	bucket *bucketCache // nil: nothing is kept
	id     key

	sequence sequence
}

// Size is the size of the object in bytes.
func (o *Object) Size() int64 { return o.info.Size }

// Close implements [io.Closer].
func (o *Object) Close() error { return nil }

// units is the number of units of the object.
func (o *Object) units() int64 { return (o.info.Size + unitBytes - 1) / unitBytes }

// length is that of a piece of a block, in bytes.
func (o *Object) length(block int64, p piece) int {
	first := block*blockBytes + int64(p.first)*unitBytes
	return int(min(int64(p.n)*unitBytes, o.info.Size-first))
}

// span is which units are requested for n bytes from off on: no others for a reader who knows what it
// needs, and all those of the blocks for any other, which is going to read on.
func (o *Object) span(off, n int64) (first, last int64) {
	first, last = off/unitBytes, (off+n-1)/unitBytes
	if !o.sequence.isOff() {
		first, last = first/blockUnits*blockUnits, min(last/blockUnits*blockUnits+blockUnits, o.units())-1
	}
	return first, last
}

// key names the block n of the object.
func (o *Object) key(n int64) key {
	// One to one for each object; the constants are those of splitmix64.
	z := o.id.hi + uint64(n)*0x9e3779b97f4a7c15
	z = (z ^ bits.RotateLeft64(z, 25) ^ bits.RotateLeft64(z, 50)) * 0xbf58476d1ce4e5b9
	return key{z, o.id.lo}
}

// ReadAt implements [io.ReaderAt]. The error of a read that the place cannot answer is that
// of [blob.Objects]: of the class [blob.ErrChanged] where the object is of another version.
// Blocks that are kept can still be read then.
func (o *Object) ReadAt(b []byte, off int64) (n int, err error) {
	if off >= o.info.Size {
		return 0, io.EOF
	}
	if most := o.info.Size - off; int64(len(b)) > most {
		b, err = b[:most], io.EOF
	}
	if o.bucket == nil {
		if err := o.from.ReadAt(context.Background(), o.info.Name, o.info.Version, b, off); err != nil {
			return 0, err
		}
		return len(b), err
	}
	for n < len(b) {
		got, err := o.read(b[n:], off+int64(n))
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, err
}

// read reads from off on, as far as some pieces or one flight go. What is missing of b is requested.
func (o *Object) read(b []byte, off int64) (int, error) {
	c := o.bucket.cache
	for missed := false; ; {
		found, flight := o.bucket.find(o, off, len(b))
		switch {
		case found.segment != nil:
			n, pieces := o.copy(b, off, &found)
			if n > 0 {
				c.count(n, int64(pieces), missed)
				return n, nil
			}
			o.bucket.damaged(found.segment, found.refs[0], found.lengths[0])
		case flight != nil:
			select {
			case <-flight.done:
			default:
				missed = true
				<-flight.done
			}
			if flight.err != nil && flight.ahead {
				o.bucket.unlist(flight) // the reader tries once itself
				continue
			}
			if flight.err != nil {
				return 0, flight.err
			}
			n := copy(b, flight.data[off-flight.off():])
			c.count(n, (off+int64(n)-1)/blockBytes-off/blockBytes+1, missed)
			return n, nil
		default:
			missed = true
			first, last := o.span(off, int64(len(b)))
			c.fetch(o, first, last)
		}
	}
}

// count takes note of blocks of which n bytes were read.
func (c *Cache) count(n int, blocks int64, missed bool) {
	if missed {
		c.misses.Add(blocks)
		return
	}
	c.hits.Add(blocks)
	c.cached.Add(int64(n))
}

// buffers are for pieces that are not wanted as a whole: the checksum is that of all of it.
var buffers = sync.Pool{New: func() any { return new([blockBytes]byte) }}

// copy reads what b wants of pieces in a segment. It returns how many bytes, and of how many
// pieces: those before the first that is not as it was written.
func (o *Object) copy(b []byte, off int64, f *found) (n, pieces int) {
	if off == f.start && len(b) >= f.bytes {
		got, _ := f.segment.file.ReadAt(b[:f.bytes], int64(f.off))
		for ; pieces < f.n; pieces++ {
			end := n + f.lengths[pieces]
			if got < end || f.keys[pieces].sum(b[n:end]) != f.sums[pieces] {
				break
			}
			n = end
		}
		return n, pieces
	}
	buffer := buffers.Get().(*[blockBytes]byte)
	defer buffers.Put(buffer)
	all := buffer[:f.lengths[0]]
	if got, _ := f.segment.file.ReadAt(all, int64(f.off)); got < len(all) || f.keys[0].sum(all) != f.sums[0] {
		return 0, 0
	}
	return copy(b, all[off-f.start:]), 1
}

// Scattered says that reads come from anywhere, or that the reader calls Fetch: no more is requested
// than is read.
func (o *Object) Scattered() {
	o.sequence.mu.Lock()
	defer o.sequence.mu.Unlock()
	o.sequence.off = true
}

// Fetch begins to fetch n bytes from off on into the cache, and waits for nothing. As long as few
// enough requests are under way, a read that comes next waits for the one of Fetch. What
// cannot be fetched is fetched again by the read that wants it, which gets the error. Where
// thousands of calls wait for the place already, it does nothing.
func (o *Object) Fetch(off, n int64) {
	off, n = max(off, 0), min(n, o.info.Size-max(off, 0))
	if o.bucket == nil || n <= 0 {
		return
	}
	c := o.bucket.cache
	first, last := o.span(off, n)
	for len(c.ahead) == 0 && c.flying.TryAcquire(1) {
		end := min(last, first+aheadUnits-1)
		c.fetchAhead(o, first, end)
		if first = end + 1; first > last {
			return
		}
	}
	select {
	case c.ahead <- ahead{o, first, last}:
	default:
	}
}

// Forget takes blocks out of the cache. It is for readers of formats with checksums, where these
// say that the bytes are wrong: the next read fetches them again.
func (o *Object) Forget(off, n int64) {
	off, n = max(off, 0), min(n, o.info.Size-max(off, 0))
	if o.bucket == nil || n <= 0 {
		return
	}
	first, last := off/unitBytes, (off+n-1)/unitBytes
	for block := first / blockUnits; block <= last/blockUnits; block++ {
		o.bucket.forget(o, block, within(block, first, last))
	}
}
