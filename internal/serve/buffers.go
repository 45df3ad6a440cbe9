package serve

import (
	"math/bits"
	"sync"
	"unsafe"
)

// buffers are memory for sources and results. It is used again, since touching new
// memory costs about as much as decoding a fast format into it.
type buffers struct {
	// classes are by size, four to each power of two: at most a fifth is wasted.
	classes [4 * 64]sync.Pool
	// poison overwrites what comes back, so that tests see a later use of it.
	poison bool
}

// class returns the smallest class whose buffers have room for size bytes, and how
// many they have.
func class(size int64) (index int, room int64) {
	size = max(size, 5)
	shift := bits.Len64(uint64(size-1)) - 3
	quarters := (size-1)>>shift + 1 // 5 to 8
	return 4*shift + int(quarters-4), quarters << shift
}

// get returns a buffer of size bytes, with anything in it.
func (s *buffers) get(size int64) []byte {
	index, room := class(size)
	if b, ok := s.classes[index].Get().(*byte); ok {
		return unsafe.Slice(b, room)[:size]
	}
	return make([]byte, size, room)
}

// put takes a buffer back, which nobody may use any more.
func (s *buffers) put(b []byte) {
	index, room := class(int64(cap(b)))
	if room != int64(cap(b)) {
		return // not from here
	}
	if s.poison {
		b = b[:cap(b)]
		for i := range b {
			b[i] = 0xdb
		}
	}
	s.classes[index].Put(unsafe.SliceData(b))
}

// within reports whether part begins in the memory of b.
func within(part, b []byte) bool {
	if cap(part) == 0 || cap(b) == 0 {
		return false
	}
	at, from := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= from && at < from+uintptr(cap(b))
}
