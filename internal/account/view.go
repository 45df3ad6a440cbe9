package account

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// View counts what was asked of one view. What the kernel has cached it does not ask for.
type View struct {
	Lookups, Opens, Reads, Bytes, Errors atomic.Int64
	// Begun is how often a file was read from its first byte on. What the kernel reads without asking
	// counts when it is opened, with all its Bytes.
	Begun atomic.Int64
	// Open is the number of files that are open, in the mode in which the mount is told of closing.
	Open atomic.Int64

	name    string
	total   atomic.Int64 // ns of all requests
	took    atomic.Int64 // ns of those that latency counts
	parts   [parts]atomic.Int64
	latency [buckets]atomic.Int64

	// What was made for the view, whether a reader waited for it or it was made ahead.
	made, fetched atomic.Int64
	making        [parts]atomic.Int64
}

// Name of the view.
func (v *View) Name() string { return v.name }

// Read counts a READ that was answered.
func (v *View) Read(off uint64, n int) {
	v.Reads.Add(1)
	v.Bytes.Add(int64(n))
	if off == 0 {
		v.Begun.Add(1)
	}
}

// Made counts a sample that was made.
func (v *View) Made(s *Spent) {
	if v == nil {
		return
	}
	v.made.Add(1)
	v.fetched.Add(s.Fetched)
	for p, d := range s.Parts {
		v.making[p].Add(int64(d))
	}
}

// Durations are counted in four buckets for each power of two, from a microsecond to a minute.
const (
	buckets = 4 * 27
	shift   = 8 // the lowest bucket ends at 1 << (shift + 2) ns
)

func bucket(d time.Duration) int {
	n := uint64(max(d, 0)) >> shift
	if n < 4 {
		return 0
	}
	top := bits.Len64(n) - 3 // n has the bits of 4 to 7 above this one
	return min(4*top+int(n>>top)-3, buckets-1)
}

// UpTo is the longest duration of a bucket, in ns.
func upTo(bucket int) int64 {
	if bucket == 0 {
		return 4<<shift - 1
	}
	bucket--
	return (int64(bucket%4)+5)<<(bucket/4+shift) - 1
}
