package store

import (
	"hash/maphash"
	"sync/atomic"
)

// recent remembers entries that were looked up lately: the kernel asks for the
// attributes of a file, its size and its bytes one right after the other, and
// finding and decoding an entry costs as much as reading a small file. A store
// that is open never changes, so nothing is ever forgotten but for lack of room.
type recent struct {
	seed  maphash.Seed
	slots [512]atomic.Pointer[Sample]
}

func newRecent() *recent { return &recent{seed: maphash.MakeSeed()} }

func (r *recent) slot(path string) *atomic.Pointer[Sample] {
	return &r.slots[maphash.String(r.seed, path)%uint64(len(r.slots))]
}

// get returns nil where it does not remember.
func (r *recent) get(path string) *Sample {
	if s := r.slot(path).Load(); s != nil && s.Path == path {
		return s
	}
	return nil
}

func (r *recent) put(s *Sample) { r.slot(s.Path).Store(s) }
