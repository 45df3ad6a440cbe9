package serve

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// Content is the open bytes of one file in one view. Whoever got it from
// [Server.Acquire] or [Server.Open] holds a pin and has to Release it.
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
	made       *product
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

// contents is the cache of open content. It is split into shards so that
// readers do not wait for each other. The cache holds one pin of its own.
type contents struct {
	shards [contentShards]contentShard
}

const contentShards = 16

type contentShard struct {
	mu    sync.Mutex
	cache *lru[Key, *Content]
}

// newContents bounds the cache to about cost bytes and entries open files.
func newContents(cost int64, entries int) *contents {
	c := &contents{}
	for i := range c.shards {
		c.shards[i].cache = newLRU[Key, *Content](cost/contentShards, max(1, entries/contentShards))
	}
	return c
}

func (c *contents) shard(key Key) *contentShard {
	// Fibonacci hashing: neighbours in a directory go to different shards.
	return &c.shards[(key*0x9e3779b97f4a7c15)>>60]
}

// get returns the content pinned, or nil.
func (c *contents) get(key Key) *Content {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.cache.get(key)
	if !ok {
		return nil
	}
	found.Pin()
	return found
}

// put takes over one pin of content and returns the content to use, pinned for
// the caller: another one, if somebody was faster.
func (c *contents) put(key Key, content *Content) *Content {
	s := c.shard(key)
	s.mu.Lock()
	if found, ok := s.cache.get(key); ok {
		found.Pin()
		s.mu.Unlock()
		content.Release()
		return found
	}
	content.Pin()
	dropped := s.cache.put(key, content, content.cost)
	s.mu.Unlock()
	release(dropped)
	return content
}

// drop forgets a key; readers that hold its content keep it. It returns a result
// that was the content, or nil.
func (c *contents) drop(key Key) (made *product) {
	s := c.shard(key)
	s.mu.Lock()
	found, ok := s.cache.remove(key)
	s.mu.Unlock()
	if ok {
		if m, ok := found.reader.(memory); ok {
			made = m.made
		}
		found.Release()
	}
	return made
}

// clear forgets everything.
func (c *contents) clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		dropped := s.cache.clear()
		s.mu.Unlock()
		release(dropped)
	}
}

func release(dropped []*Content) {
	for _, c := range dropped {
		c.Release()
	}
}
