package fs

import (
	"strings"
	"sync"
	"sync/atomic"
)

// chunkLen is a power of two: the index splits by shift and mask.
const (
	chunkBits = 12
	chunkLen  = 1 << chunkBits
)

// chunked is an append-only array that never moves, so that readers need no
// lock. An element below the length is written before the length says so. The
// element 0 is never given out: 0 means none.
type chunked[T any] struct {
	mu     sync.Mutex
	chunks atomic.Pointer[[]*[chunkLen]T]
	len    atomic.Uint32 // of what is in use, element 0 included
}

// at returns an element, or nil where there is none: numbers come from the
// kernel.
func (c *chunked[T]) at(i uint32) *T {
	if i == 0 || i >= c.len.Load() {
		return nil
	}
	return &(*c.chunks.Load())[i>>chunkBits][i&(chunkLen-1)]
}

// add appends and returns the index.
func (c *chunked[T]) add(v T) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := max(1, c.len.Load())
	var chunks []*[chunkLen]T
	if p := c.chunks.Load(); p != nil {
		chunks = *p
	}
	if int(i>>chunkBits) == len(chunks) {
		grown := append(chunks[:len(chunks):len(chunks)], new([chunkLen]T))
		c.chunks.Store(&grown)
		chunks = grown
	}
	chunks[i>>chunkBits][i&(chunkLen-1)] = v
	c.len.Store(i + 1)
	return i
}

// count is the number of elements.
func (c *chunked[T]) count() int { return int(max(1, c.len.Load())) - 1 }

// packer joins names into one string and gives their entries out.
type packer struct {
	t     *tree
	dir   uint32
	names strings.Builder
	ids   []*uint32
	made  []entry
}

func (p *packer) add(name string, kind uint8, link bool, id *uint32) {
	p.made = append(p.made, entry{dir: p.dir, off: uint32(p.names.Len()), len: uint8(len(name)), kind: kind, link: link})
	p.names.WriteString(name)
	p.ids = append(p.ids, id)
}

func (p *packer) finish() {
	if len(p.made) == 0 {
		return
	}
	blob := p.t.blobs.add(strings.Clone(p.names.String()))
	for i, e := range p.made {
		e.blob = blob
		*p.ids[i] = p.t.entries.add(e)
	}
	p.t.journal.entries(p.dir, *p.t.blobs.at(blob), p.made, p.ids)
}
