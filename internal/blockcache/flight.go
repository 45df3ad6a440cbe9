package blockcache

import (
	"slices"
	"sync"
)

// flight is one request, for neighbouring units of an object.
type flight struct {
	object      *Object
	first, last int64  // units
	loads       []load // what of them was missing
	ahead       bool   // no reader asked for it
	done        chan struct{}
	// These are valid when done is closed.
	data []byte
	err  error
}

// load is a piece that a flight brings.
type load struct {
	key   key
	piece piece
	off   int64 // in the object
	bytes int
}

// ahead is a call of Fetch.
type ahead struct {
	object      *Object
	first, last int64
}

const (
	// gapUnits is how many units that are there are fetched once more rather than
	// making two requests: what 100 MB/s carry in 3 ms.
	gapUnits = 256 << 10 / unitBytes
	// wholeUnits: an object of no more is fetched as a whole.
	wholeUnits = 1 << 20 / unitBytes
	// mostUnits bounds a request, and with it the memory that it takes.
	mostUnits = 8 << 20 / unitBytes
	// aheadBytes bounds one that no reader waits for: a reader who comes waits for all of it. It may begin
	// and end amid a unit.
	aheadBytes = 4 << 20
	aheadUnits = aheadBytes/unitBytes + 1
)

// off is where the flight begins in its object, in bytes.
func (f *flight) off() int64 { return f.first * unitBytes }

// end is where it ends, in bytes.
func (f *flight) end() int64 { return min((f.last+1)*unitBytes, f.object.info.Size) }

// size is the number of its bytes.
func (f *flight) size() int64 { return f.end() - f.off() }

// begin requests what is missing of some units, in requests of so many units at most.
func (o *Object) begin(first, last, most int64, ahead bool) (begun []*flight) {
	if o.units() <= wholeUnits {
		first, last = 0, o.units()-1
	}
	s := o.bucket
	s.mu.Lock()
	defer s.mu.Unlock()
	var f *flight
	for block := first / blockUnits; block <= last/blockUnits; block++ {
		k := o.key(block)
		for missing := within(block, first, last) &^ s.covered(k, block); missing != 0; {
			p := missing.lowest()
			missing &^= p.units()
			from := block*blockUnits + int64(p.first)
			to := from + int64(p.n) - 1
			if f == nil || from-f.last > gapUnits || to-f.first >= most {
				f = &flight{object: o, first: from, ahead: ahead, done: make(chan struct{})}
				begun = append(begun, f)
			}
			f.last = to
			f.loads = append(f.loads, load{k, p, from * unitBytes, o.length(block, p)})
			if listed := s.flights[k]; !slices.Contains(listed, f) {
				s.flights[k] = append(listed, f)
			}
		}
	}
	return begun
}

// within is what of the units from first to last lies in a block.
func within(block, first, last int64) units {
	from, to := max(first-block*blockUnits, 0), min(last-block*blockUnits, blockUnits-1)
	if from > to {
		return 0
	}
	return piece{uint8(from), uint8(to - from + 1)}.units()
}

// covered is what of a block is there, or on its way. mu is held.
func (s *bucketCache) covered(k key, block int64) units {
	all := s.index.held(k.hi)
	for _, f := range s.flights[k] {
		all |= within(block, f.first, f.last)
	}
	return all
}

// run makes the request, and then keeps what came.
func (f *flight) run() {
	o, s, c := f.object, f.object.bucket, f.object.bucket.cache
	kept := false
	defer func() { s.land(f, kept) }()
	if f.err = c.memory.Acquire(c.ctx, f.size()); f.err != nil {
		close(f.done)
		return
	}
	defer c.memory.Release(f.size())
	data := make([]byte, f.size())
	c.requests.Add(1)
	if f.err = o.from.ReadAt(c.ctx, o.info.Name, o.info.Version, data, f.off()); f.err == nil {
		f.data = data
		c.fetched.Add(f.size())
	}
	close(f.done)
	if f.err == nil {
		kept = s.keep(f)
	}
}

// dispatch fetches ahead. Calls that follow each other, as those of read-ahead do, are one.
func (c *Cache) dispatch() {
	var next ahead
	for {
		a := next
		if next = (ahead{}); a.object == nil {
			select {
			case <-c.ctx.Done():
				return
			case a = <-c.ahead:
			}
		}
		for next.object == nil && len(c.ahead) > 0 {
			if b := <-c.ahead; b.object == a.object && a.first <= b.first && b.first <= a.last+1 {
				a.last = max(a.last, b.last)
			} else {
				next = b
			}
		}
		for first := a.first; first <= a.last; first += aheadUnits {
			if c.flying.Acquire(c.ctx, 1) != nil {
				return
			}
			c.fetchAhead(a.object, first, min(a.last, first+aheadUnits-1))
		}
	}
}

// fetchAhead makes requests that no reader waits for. The caller has acquired flying for it.
func (c *Cache) fetchAhead(o *Object, first, last int64) {
	begun := o.begin(first, last, aheadUnits, true)
	if len(begun) == 0 {
		c.flying.Release(1)
		return
	}
	c.work.Go(func() {
		defer c.flying.Release(1)
		for _, f := range begun[1:] {
			c.work.Go(f.run)
		}
		begun[0].run()
	})
}

// fetch requests what a reader waits for, and more where it reads on from where the last
// request ended.
func (c *Cache) fetch(o *Object, first, last int64) {
	for _, f := range o.begin(first, max(last, o.onward(first, last)), mostUnits, false) {
		c.work.Go(f.run)
	}
}

// sequence is how far an object has been read in order.
type sequence struct {
	mu   sync.Mutex
	off  bool  // the reader knows better
	next int64 // the unit behind the last request
	long int64 // of the last request, units
}

func (s *sequence) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off
}

// onward says up to which unit to request: each request that continues the one before it is
// twice as long.
func (o *Object) onward(first, last int64) int64 {
	s := &o.sequence
	s.mu.Lock()
	defer s.mu.Unlock()
	n := last - first + 1
	if first == s.next && first > 0 && !s.off {
		n = max(n, min(2*s.long, aheadBytes/unitBytes))
	}
	s.long, s.next = n, min(first+n, o.units())
	return s.next - 1
}
