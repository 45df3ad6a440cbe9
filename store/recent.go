package store

import (
	"hash/maphash"
	"sync/atomic"
)

// recent remembers entries that were looked up lately: the kernel asks for the
// attributes of a file, its size and its bytes one right after the other, and
// finding and decoding an entry costs as much as reading a small file. A store
// that is open never changes, so nothing is ever forgotten but for lack of room.
// It remembers, too, which keys come behind those that were looked up.
type recent struct {
	seed     maphash.Seed
	slots    [512]atomic.Pointer[Sample]
	expected [16]atomic.Uint64 // hashes of keys
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

// expect takes note of the key behind one that was looked up.
func (r *recent) expect(key []byte) {
	if len(key) > 0 {
		h := maphash.Bytes(r.seed, key)
		r.expected[h%uint64(len(r.expected))].Store(h)
	}
}

// expects reports whether a reader goes through the index in order.
func (r *recent) expects(key []byte) bool {
	h := maphash.Bytes(r.seed, key)
	return r.expected[h%uint64(len(r.expected))].Load() == h
}
