package store

import (
	"container/heap"
	"context"
	"encoding/binary"
	"io"
	"iter"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// piece is one list of a merge: the segment of a pack, or the index of several.
type piece struct {
	name string // for messages
	open func() (items, io.Closer, error)
	// pack is the number of a segment's pack. Items of other lists have theirs: -1.
	pack int
	kept *list // a temporary one, which stays open
}

// asPiece is what the open of a piece returns.
func (l *list) asPiece(err error) (items, io.Closer, error) {
	if err != nil {
		return nil, nil, err
	}
	return l.items, l.f, nil
}

// mergeWidth bounds how many lists are read at once: each takes a descriptor and a block.
const mergeWidth = 128

// mergePieces calls f with the items of some pieces, the later ones newer. A path
// occurs once. Where there are too many to be read at once, those side by side are merged
// into temporary lists first, several at once.
func mergePieces(ctx context.Context, pieces []piece, f func(item []byte) error) error {
	groups := slices.Collect(slices.Chunk(pieces, mergeWidth))
	if len(groups) <= 1 {
		return mergeOnce(ctx, pieces, f)
	}
	merged := make([]piece, len(groups))
	defer func() {
		for _, p := range merged {
			if p.kept != nil {
				_ = p.kept.f.Close() // it has no name
			}
		}
	}()
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(min(4, runtime.GOMAXPROCS(0)))
	for i := range groups {
		g.Go(func() (err error) {
			merged[i], err = mergeGroup(group, groups[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return mergePieces(ctx, merged, f)
}

// mergeGroup makes one piece of several.
func mergeGroup(ctx context.Context, pieces []piece) (piece, error) {
	l, err := temporaryList(packID{}, func(w *listWriter) error { return mergeOnce(ctx, pieces, w.add) })
	if err != nil {
		return piece{}, err
	}
	return piece{
		name: "temporary list", pack: -1, kept: l,
		open: func() (items, io.Closer, error) { return l.items, io.NopCloser(nil), nil },
	}, nil
}

// mergeOnce merges pieces, all at once.
func mergeOnce(ctx context.Context, pieces []piece, f func(item []byte) error) error {
	m := merge{}
	defer func() {
		for _, c := range m {
			c.end()
		}
	}()
	cursors, err := openCursors(ctx, pieces)
	if err != nil {
		return err
	}
	for i, c := range cursors {
		if err := m.push(c); err != nil {
			for _, c := range cursors[i+1:] {
				c.end()
			}
			return err
		}
	}
	var last []byte
	for n := 0; len(m) > 0; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		// The newest of equal paths comes first.
		if path := itemPath(m[0].item); n == 0 || string(path) != string(last) {
			last = append(last[:0], path...)
			if err := f(m[0].item); err != nil {
				return err
			}
		}
		if err := m.advance(); err != nil {
			return err
		}
	}
	return nil
}

// cursor walks over one piece.
type cursor struct {
	of   *piece
	age  int // larger is newer
	all  items
	file io.Closer
	next func() ([]byte, error, bool)
	stop func()
	item []byte // that it is at; nil at the end
}

// opensAtOnce is for segments that have to be fetched.
const opensAtOnce = 16

// openCursors opens some pieces, all or none.
func openCursors(ctx context.Context, pieces []piece) ([]*cursor, error) {
	cursors := make([]*cursor, len(pieces))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(opensAtOnce)
	for i := range pieces {
		g.Go(func() (err error) {
			if err = ctx.Err(); err != nil {
				return err
			}
			c := &cursor{of: &pieces[i], age: i}
			if c.all, c.file, err = c.of.open(); err == nil {
				cursors[i] = c
			}
			return err
		})
	}
	err := g.Wait()
	if err != nil {
		for _, c := range cursors {
			if c != nil {
				c.end()
			}
		}
		return nil, err
	}
	return cursors, nil
}

func (c *cursor) end() {
	if c.stop != nil {
		c.stop()
	}
	_ = c.file.Close() // only read
}

// advance goes to the next item.
func (c *cursor) advance() error {
	item, err, ok := c.next()
	switch {
	case !ok:
		item = nil
	case err != nil:
		return damaged(c.of.name, err)
	case c.of.pack >= 0:
		binary.LittleEndian.PutUint32(item, uint32(c.of.pack)) // nobody else has the block
	}
	c.item = item
	return nil
}

// merge is a heap of cursors, by path, then the newest first.
type merge []*cursor

func (m merge) Len() int      { return len(m) }
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)   { *m = append(*m, x.(*cursor)) }
func (m *merge) Pop() any     { last := len(*m) - 1; x := (*m)[last]; *m = (*m)[:last]; return x }

func (m merge) Less(i, j int) bool {
	if c := ComparePaths(itemPath(m[i].item), itemPath(m[j].item)); c != 0 {
		return c < 0
	}
	return m[i].age > m[j].age
}

// push begins a piece. The goroutine that opened it must not do that: where one of two goroutines that use
// what [iter.Pull2] returns is locked to a thread, the runtime ends the process.
func (m *merge) push(c *cursor) error {
	c.next, c.stop = iter.Pull2(c.all)
	err := c.advance()
	if err == nil && c.item != nil {
		heap.Push(m, c)
		return nil
	}
	c.end()
	return err
}

// advance replaces the first item by the next one of its piece.
func (m *merge) advance() error {
	first := (*m)[0]
	if err := first.advance(); err != nil {
		return err
	}
	if first.item == nil {
		heap.Pop(m).(*cursor).end()
	} else {
		heap.Fix(m, 0)
	}
	return nil
}
