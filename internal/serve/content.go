package serve

import (
	"io"
	"os"
	"sync/atomic"
)

// ReaderAt is what Content holds open.
type ReaderAt interface {
	io.ReaderAt
	io.Closer
}

// Content is the open bytes of one file in one view. Whoever got it from
// [Handle.Cached] or [Handle.Open] holds a pin and has to Release it.
type Content struct {
	size   int64
	reader ReaderAt
	memory *os.File // the memfd behind reader, or nil
	cost   int64    // bytes that it takes from the budget
	refs   atomic.Int32
	passed atomic.Int64 // bytes, see Passed
	// fetched counts the bytes that are read; nil where they are in memory.
	fetched *atomic.Int64

	backing atomic.Int32 // see Back
	forget  func(int32)
}

// Size of the content in bytes.
func (c *Content) Size() int64 { return c.size }

// Memory is a memfd that holds exactly the content, or nil. It is valid until
// Release.
func (c *Content) Memory() *os.File { return c.memory }

// ReadAt implements [io.ReaderAt]. It does not allocate.
func (c *Content) ReadAt(b []byte, off int64) (int, error) {
	if off >= c.size {
		return 0, io.EOF
	}
	short := int64(len(b)) > c.size-off
	if short {
		b = b[:c.size-off]
	}
	n, err := c.reader.ReadAt(b, off)
	if c.fetched != nil {
		c.fetched.Add(int64(n))
	}
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Bytes returns up to n bytes at off, where they lie in memory in one piece, and
// nil otherwise. Nobody may change them; they are valid until Release.
func (c *Content) Bytes(off int64, n int) []byte {
	m, ok := c.reader.(memory)
	if !ok || off < 0 || off >= int64(len(m.data)) {
		return nil
	}
	end := min(off+int64(n), c.size)
	if end > int64(len(m.data)) {
		return nil
	}
	return m.data[off:end:end]
}

// Release gives the pin back.
func (c *Content) Release() {
	if c.refs.Add(-1) == 0 {
		if id := c.backing.Load(); id != 0 {
			c.forget(id)
		}
		c.reader.Close()
	}
}

// Backing is the number that Back noted, or 0.
func (c *Content) Backing() int32 { return c.backing.Load() }

// Back notes the number by which the kernel knows Memory: it need not be told at
// each open. Right before the memory goes, forget is called with it. Only one may
// note one, once, who holds a pin.
func (c *Content) Back(id int32, forget func(id int32)) {
	c.forget = forget
	c.backing.Store(id)
}

// Pin pins the content once more.
func (c *Content) Pin() { c.refs.Add(1) }

// Passed notes that n bytes have been passed on, and reports whether by now as many
// were as there are, of content that takes memory: somebody who keeps what he gets
// will not ask again.
func (c *Content) Passed(n int) bool {
	return c.cost > 0 && c.passed.Add(int64(n)) >= c.size
}

// memory is content that is in the daemon's own memory, as one or two pieces: a
// prefix of what was produced and a literal tail.
type memory struct {
	data, tail []byte
	made       *result
}

func (m memory) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(m.data)) {
		n = copy(b, m.data[off:])
	}
	if from := off + int64(n) - int64(len(m.data)); from >= 0 && from < int64(len(m.tail)) {
		n += copy(b[n:], m.tail[from:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m memory) Close() error {
	m.made.release()
	return nil
}
