package produce

import (
	"sync"
	"unsafe"

	"github.com/pipefs/pipefs/transcode"
)

// sources are buffers for what results are made from. They are used again, since
// touching new memory costs about as much as decoding a fast format into it.
type sources struct{ pool sync.Pool }

// get returns a buffer of size bytes, with anything in it.
func (s *sources) get(size int64) []byte {
	if b, ok := s.pool.Get().(*[]byte); ok && int64(cap(*b)) >= size {
		return (*b)[:size]
	}
	return make([]byte, size)
}

// put takes a buffer back unless the result lies in it.
func (s *sources) put(b []byte, result transcode.Split) {
	if !within(result.Data, b) && !within(result.Tail, b) && !within(result.Undo, b) {
		s.pool.Put(&b)
	}
}

// within reports whether part begins in the memory of b.
func within(part, b []byte) bool {
	if cap(part) == 0 || cap(b) == 0 {
		return false
	}
	at, from := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= from && at < from+uintptr(cap(b))
}
