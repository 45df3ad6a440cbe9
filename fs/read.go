package fs

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// result is the answer to a READ: bytes that are in go-fuse's buffer already.
type result struct {
	size int
}

// results are kept, so that reading leaves no garbage.
var results = sync.Pool{New: func() any { return new(result) }}

// Bytes implements [fuse.ReadResult].
func (r *result) Bytes(buf []byte) ([]byte, fuse.Status) { return buf[:r.size], fuse.OK }

// Size implements [fuse.ReadResult].
func (r *result) Size() int { return r.size }

// Done implements [fuse.ReadResult].
func (r *result) Done() { results.Put(r) }

func newResult(size int) *result {
	r := results.Get().(*result)
	r.size = size
	return r
}

// inMemory is content that is in this process's memory and never changes there, so
// that it need not be copied to be sent.
type inMemory interface {
	// Bytes returns up to n bytes at off, or nil where they have to be read. They
	// are valid until Release.
	Bytes(off int64, n int) []byte
	// Pin makes one more Release necessary.
	Pin()
	// Passed notes that n bytes have been sent, and reports whether who keeps them
	// has them all.
	Passed(n int) bool
}

// lent is the answer to a READ from content in memory, which it holds until it has
// been sent: go-fuse calls Done before it sends what Bytes returns, but after it
// sends what Slices returns.
type lent struct {
	content Content
	slices  [1][]byte
}

var lents = sync.Pool{New: func() any { return new(lent) }}

// Slices implements go-fuse's interface for what is sent from where it lies.
func (r *lent) Slices() ([][]byte, fuse.Status) { return r.slices[:], fuse.OK }

// Bytes implements [fuse.ReadResult].
func (r *lent) Bytes(buf []byte) ([]byte, fuse.Status) {
	return append(buf[:0], r.slices[0]...), fuse.OK
}

// Size implements [fuse.ReadResult].
func (r *lent) Size() int { return len(r.slices[0]) }

// Done implements [fuse.ReadResult].
func (r *lent) Done() {
	r.content.Release()
	*r = lent{}
	lents.Put(r)
}

// Read reads into buf. It does not allocate where the content is open already.
func (f *FS) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	index, id := splitNode(in.NodeId)
	if index == 0 {
		return f.readSpecial(id, int64(in.Offset), buf)
	}
	v := f.views.at(index)
	if v == nil {
		return nil, estale
	}
	var c Content
	if f.mode == DaemonCache {
		c = f.opens.content(in.NodeId)
	}
	pinned := c == nil
	if pinned {
		c = f.producer.Acquire(in.NodeId)
	}
	if c == nil {
		var status fuse.Status
		if c, status = f.openContent(cancel, &in.InHeader, v, id, "read", int64(in.Offset)); status != fuse.OK {
			return nil, status
		}
	}
	if m, ok := c.(inMemory); ok {
		if data := m.Bytes(int64(in.Offset), len(buf)); data != nil {
			if !pinned {
				m.Pin()
			}
			if f.mode == PageCache && m.Passed(len(data)) {
				// It is in the page cache now, and its memory is free for the next one.
				f.producer.Drop(in.NodeId)
			}
			v.counters.read(in.Offset, len(data))
			r := lents.Get().(*lent)
			r.content, r.slices[0] = c, data
			return r, fuse.OK
		}
	}
	n, err := readFull(c, buf, int64(in.Offset))
	if pinned {
		c.Release()
	}
	if err != nil {
		return nil, f.lost(v, id, "read", f.tree.path(id), int64(in.Offset), err)
	}
	v.counters.read(in.Offset, n)
	return newResult(n), fuse.OK
}

// readFull fills b as far as the content goes. Less would be taken for the end
// of the file.
func readFull(c Content, b []byte, off int64) (int, error) {
	left := c.Size() - off
	if left <= 0 {
		return 0, nil
	}
	if int64(len(b)) > left {
		b = b[:left]
	}
	n, err := c.ReadAt(b, off)
	if n == len(b) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%d bytes where %d were promised: %w", n, len(b), io.ErrUnexpectedEOF)
	}
	return n, err
}

// openContent opens an entry in a view.
func (f *FS) openContent(cancel <-chan struct{}, header *fuse.InHeader, v *view, id uint32, op string, off int64) (Content, fuse.Status) {
	a, ok := f.tree.known(id)
	if !ok {
		return nil, estale
	}
	file := f.file(id, a)
	ctx, stop := requestContext(cancel, header)
	defer stop()
	c, err := f.producer.Open(ctx, node(v.index, id), file, v.pipeline)
	if err != nil {
		return nil, f.lost(v, id, op, file.Path, off, err)
	}
	return c, fuse.OK
}

func (f *FS) readSpecial(id uint32, off int64, buf []byte) (fuse.ReadResult, fuse.Status) {
	s := f.root.special(id)
	if s == nil || s.target != "" {
		return nil, fuse.EINVAL
	}
	data, err := f.content(s)
	if err != nil {
		return nil, f.fail(f.views.at(originalView), "read", pipefsName+"/"+s.name, off, err)
	}
	if off >= int64(len(data)) {
		return newResult(0), fuse.OK
	}
	return newResult(copy(buf, data[off:])), fuse.OK
}
