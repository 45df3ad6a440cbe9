package fs

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/serve"
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

// lent is the answer to a READ from content in memory, which it holds until it has
// been sent: go-fuse calls Done before it sends what Bytes returns, but after it
// sends what Slices returns.
type lent struct {
	content *serve.Content
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
		return f.readSpecial(cancel, in, id, buf)
	}
	v := f.views.at(index)
	if v == nil {
		return nil, estale
	}
	var c *serve.Content
	var h *serve.Handle // nil where the content is that of an open file
	if f.mode == DaemonCache {
		c = f.opens.content(in.NodeId)
	}
	if c == nil {
		var status fuse.Status
		if h, c, status = f.openContent(cancel, &in.InHeader, v, id, "read", int64(in.Offset)); status != fuse.OK {
			return nil, status
		}
	}
	if data := c.Bytes(int64(in.Offset), len(buf)); data != nil {
		if f.mode == PageCache && c.Passed(len(data)) {
			// It is in the page cache now, and its memory is free for the next one.
			h.Drop()
			if v.pipeline.Random() {
				f.readDraw(in.NodeId)
			}
		}
		v.counters.Read(in.Offset, len(data))
		r := lents.Get().(*lent)
		r.content, r.slices[0] = c, data
		return r, fuse.OK
	}
	n, err := f.readFrom(c, buf, in, v)
	c.Release()
	if err != nil {
		return nil, f.lost(v, id, "read", f.tree.path(id), int64(in.Offset), err)
	}
	v.counters.Read(in.Offset, n)
	return newResult(n), fuse.OK
}

// readFull fills b as far as content of that size goes. Less would be taken for the end
// of the file.
func readFull(c io.ReaderAt, size int64, b []byte, off int64) (int, error) {
	left := size - off
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

// openContent opens an entry in a view, and pins its content. It does not allocate where
// the content is open already.
func (f *FS) openContent(cancel <-chan struct{}, header *fuse.InHeader, v *view, id uint32, op string, off int64) (*serve.Handle, *serve.Content, fuse.Status) {
	n := node(v.index, id)
	h := f.handles.get(n)
	if h != nil {
		if c := h.Cached(); c != nil {
			return h, c, fuse.OK
		}
	}
	ctx, stop := requestContext(cancel, header)
	defer stop()
	var err error
	if h == nil || v.pipeline.Stored() { // see handle
		a, ok := f.tree.known(id)
		if !ok {
			return nil, nil, estale
		}
		h, err = f.handle(ctx, n, f.file(id, a), v)
	}
	var c *serve.Content
	if err == nil {
		c, err = h.Open(ctx)
	}
	f.waited(ctx, v.counters)
	if err != nil {
		return nil, nil, f.lost(v, id, op, f.tree.path(id), off, err)
	}
	return h, c, fuse.OK
}

func (f *FS) readSpecial(cancel <-chan struct{}, in *fuse.ReadIn, id uint32, buf []byte) (fuse.ReadResult, fuse.Status) {
	off := int64(in.Offset)
	s := f.root.special(id)
	switch {
	case s == nil && f.journal.Resumes():
		return nil, estale // it was made for one reader, by a daemon before this one
	case s == nil || s.target != "":
		return nil, fuse.EINVAL
	}
	switch {
	case s.batch != nil:
		return f.readEpoch(cancel, in, s.batch, len(buf))
	case s.asked != nil:
		return f.readAsked(cancel, in, s.asked, len(buf))
	}
	data, err := f.content(s)
	if err != nil {
		return nil, f.fail(f.views.at(originalView), "read", belowMount(s.name), off, err)
	}
	if off >= int64(len(data)) {
		return newResult(0), fuse.OK
	}
	return newResult(copy(buf, data[off:])), fuse.OK
}
