package store

import (
	"bytes"
	"errors"
	"iter"
	"path"
	"strings"
	"sync"

	sorted "github.com/pipefs/pipefs/internal/index"
)

// index finds the entries of a store by their paths. It is merged from the segments of a
// generation, and can be made again. A key is the directory, a zero byte, and the name: so it
// has the order of [ComparePaths]. A value is an item.
//
// An index is whole, or it is a delta: then it holds the entries of the last packs only, tombstones
// included, and base is the index of the packs before them.
type index struct {
	*sorted.Index
	base    *sorted.Index // nil in a whole index
	name    string        // for messages
	numbers []uint32      // of packs, as [edition] has them
}

// Close closes the index and its base.
func (x *index) Close() error {
	if x.base != nil {
		_ = x.base.Close() // never fails, like the next one
	}
	return x.Index.Close()
}

// Get appends the item of a key to buf; nil is that there is none.
func (x *index) Get(buf, key []byte) ([]byte, error) {
	item, _, err := x.GetNext(buf, key)
	return item, err
}

// GetNext is Get, and returns a key that may come next.
func (x *index) GetNext(buf, key []byte) (item, next []byte, err error) {
	item, next, err = x.Index.GetNext(buf, key)
	switch {
	case err != nil || x.base == nil:
		return item, next, err
	case item == nil:
		return x.base.GetNext(buf, key)
	case itemKind(item) == Tombstone:
		return nil, nil, nil
	}
	return item, next, nil
}

// Walk calls f with each key from one on, in order, and its item. f must not keep them. Its error ends
// the walk, and is returned; ErrEnough is none.
func (x *index) Walk(from []byte, f func(key, item []byte) error) error {
	if x.base == nil {
		return x.Index.Walk(from, f)
	}
	next, stop := iter.Pull2(x.From(from))
	defer stop()
	delta, broken, more := next()
	// below passes on what the delta has below a key; nil is the end. The error may be ErrEnough.
	below := func(key []byte) error {
		for ; more && broken == nil && (key == nil || bytes.Compare(delta[0], key) < 0); delta, broken, more = next() {
			if itemKind(delta[1]) == Tombstone {
				continue
			}
			if err := f(delta[0], delta[1]); err != nil {
				return err
			}
		}
		return broken
	}
	enough := false
	err := x.base.Walk(from, func(key, item []byte) error {
		err := below(key)
		if err == nil && !(more && bytes.Equal(delta[0], key)) {
			err = f(key, item)
		}
		enough = errors.Is(err, sorted.ErrEnough)
		return err
	})
	if err == nil && !enough {
		err = below(nil)
	}
	if errors.Is(err, sorted.ErrEnough) {
		return nil
	}
	return err
}

func appendKey(b []byte, path string) []byte {
	dir, name := splitPath(path)
	b = append(b, dir...)
	b = append(b, 0)
	return append(b, name...)
}

// indexMeta is what an index says of itself.
type indexMeta struct {
	Packs int `json:"packs"` // that it was made from
	// Base is the name of the index that this is a delta of; "" in a whole one. Entries are those
	// of both.
	Base    string `json:"base,omitempty"`
	Entries int64  `json:"entries,omitempty"`
	// Stats and NextSeq are those of the generation that a whole index was made for.
	Stats   *Stats `json:"stats,omitempty"`
	NextSeq int64  `json:"next_seq,omitempty"`
}

// broken makes the error of a place in the index.
func (x *index) broken(p string, cause error) error {
	switch {
	case cause == nil || errors.Is(cause, sorted.ErrClosed):
		return cause
	case errors.Is(cause, sorted.ErrCorrupt):
		return &CorruptError{Path: path.Join(x.name, p), Cause: cause}
	}
	return damaged(path.Join(x.name, p), cause)
}

// itemBuffers are for items that are decoded at once.
var itemBuffers = sync.Pool{New: func() any { return new([]byte) }}

// item calls f with the item of a path, nil where there is none.
func (x *index) item(p string, f func(item []byte) error) error {
	var k [256]byte
	buf := itemBuffers.Get().(*[]byte)
	defer itemBuffers.Put(buf)
	item, err := x.Get((*buf)[:0], appendKey(k[:0], p))
	if err != nil {
		return x.broken(p, err)
	}
	if cap(item) > cap(*buf) {
		*buf = item
	}
	return x.broken(p, f(item))
}

// get returns the entry of a path, nil where there is none. Every error is one of
// the index.
func (x *index) get(p string) (s *Sample, err error) {
	err = x.item(p, func(item []byte) error {
		if item == nil {
			return nil
		}
		e, err := decodeNumbered(item, x.numbers)
		s = &e
		return err
	})
	return s, err
}

// aheadItems are read at once where entries are looked up one after the other.
const aheadItems = 64

// lookup is get for a reader who may go on with the entry behind it: these are put into r.
func (x *index) lookup(p string, r *recent) (found *Sample, err error) {
	var k [256]byte
	key := appendKey(k[:0], p)
	if !r.expects(key) {
		buf := itemBuffers.Get().(*[]byte)
		defer itemBuffers.Put(buf)
		item, next, err := x.GetNext((*buf)[:0], key)
		if err != nil || item == nil {
			return nil, x.broken(p, err)
		}
		if cap(item) > cap(*buf) {
			*buf = item
		}
		r.expect(next)
		s, err := decodeNumbered(item, x.numbers)
		return &s, x.broken(p, err)
	}
	n := 0
	err = x.Walk(key, func(at, item []byte) error {
		if n == aheadItems {
			r.expect(at)
			return sorted.ErrEnough
		}
		s, err := decodeNumbered(item, x.numbers)
		if err != nil {
			return err
		}
		if n++; n == 1 {
			if s.Path != p {
				return sorted.ErrEnough // it is not there
			}
			found = &s
		}
		r.put(&s)
		return nil
	})
	return found, x.broken(p, err)
}

// list returns what a directory holds, by name.
func (x *index) list(dir string) ([]Child, error) {
	var children []Child
	err := x.Walk(appendKey(nil, dir+"/"), func(key, item []byte) error {
		if !strings.HasPrefix(string(key), dir+"\x00") {
			return sorted.ErrEnough
		}
		if len(itemPath(item)) == 0 {
			return nil // the dataset itself
		}
		d := decoder{b: item[itemHead:]}
		s := decodeHead(&d)
		_, name := splitPath(s.Path)
		children = append(children, Child{Name: name, Kind: s.Kind, Seq: s.Seq})
		return d.err
	})
	return children, x.broken(dir, err)
}

// items yields all items.
func (x *index) items(yield func([]byte, error) bool) {
	err := x.Walk(nil, func(_, item []byte) error {
		if !yield(item, nil) {
			return sorted.ErrEnough
		}
		return nil
	})
	if err != nil {
		yield(nil, x.broken("", err))
	}
}

// each calls f with every entry, in order.
func (x *index) each(f func(*Sample) error) error {
	for item, err := range x.items {
		if err != nil {
			return err
		}
		s, err := decodeNumbered(item, x.numbers)
		if err != nil {
			return x.broken("", err)
		}
		if err := f(&s); err != nil {
			return err
		}
	}
	return nil
}
