package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
	"sync/atomic"
)

// Layout is what the items of a table have in common. It never changes for a table.
type Layout struct {
	// Head is how many bytes stand before the key in an item of a leaf.
	Head int
	// MaxItem is the longest item, in bytes.
	MaxItem int
	// Key returns the key in what follows the head of an item; empty where it cannot be read.
	Key   func(rest []byte) []byte
	Order Order
}

// Order is that of keys.
type Order uint8

const (
	// ByBytes is the order of [bytes.Compare].
	ByBytes Order = iota
	// ByDirectory is the order of [ComparePaths].
	ByDirectory
)

// compare is no function of the layout's: what is passed to one is allocated.
func (l *Layout) compare(a, b []byte) int {
	if l.Order == ByDirectory {
		return ComparePaths(a, b)
	}
	return bytes.Compare(a, b)
}

// ComparePaths orders by directory, then by name: what a directory holds lies together.
func ComparePaths(a, b []byte) int {
	i, j := max(bytes.LastIndexByte(a, '/'), 0), max(bytes.LastIndexByte(b, '/'), 0)
	if c := bytes.Compare(a[:i], b[:j]); c != 0 {
		return c
	}
	return bytes.Compare(a[i:], b[j:])
}

// key is that of an item of a leaf.
func (l *Layout) key(item []byte) []byte { return l.Key(item[l.Head:]) }

// Table is an open table. It is safe for concurrent use.
type Table struct {
	f      io.ReaderAt
	seal   Seal
	layout *Layout
	// Blocks that were read lately, in places that follow from their offset.
	inner  [128]atomic.Pointer[block]
	leaves [512]atomic.Pointer[block]
}

// Seal is what has to be known of a table to read it.
type Seal struct {
	Size   int64 `json:"size"` // bytes
	Height int   `json:"height"`
	Root   Ref   `json:"root"`
}

// Open returns the table in f. It reads the root, to see that the seal is that of f.
func Open(f io.ReaderAt, s Seal, l *Layout) (*Table, error) {
	t := New(f, s, l)
	_, err := t.root()
	return t, err
}

// New is Open without reading.
func New(f io.ReaderAt, s Seal, l *Layout) *Table { return &Table{f: f, seal: s, layout: l} }

// Ref is where a block lies.
type Ref struct {
	Off int64  `json:"offset"`
	Len uint32 `json:"length"`
	Sum uint32 `json:"crc32c"`
}

const (
	// blockSize is what a block is filled up to, in bytes: as much as is read at once.
	blockSize = 16 << 10
	// maxHeight is far above what any number of entries needs.
	maxHeight = 16
	// keepBlock is the longest block that is remembered, in bytes.
	keepBlock = 64 << 10

	innerHead = 16 // of an item: offset, length, checksum of the block below
)

// block holds items: of a leaf, those of the table; of an inner block, the blocks
// below and the key of the first item in each.
type block struct {
	ref   Ref
	of    *Layout
	level int    // 0 is a leaf
	b     []byte // the items
	ends  []byte // where each ends, 4 bytes
}

func (k *block) len() int { return len(k.ends) / 4 }

// item returns the i-th item, which has at least a head.
func (k *block) item(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = binary.LittleEndian.Uint32(k.ends[4*i-4:])
	}
	return k.b[start:binary.LittleEndian.Uint32(k.ends[4*i:])]
}

// key is that of the i-th item.
func (k *block) key(i int) []byte {
	if k.level > 0 {
		return k.item(i)[innerHead:]
	}
	return k.of.key(k.item(i))
}

// child is the block below that the i-th item refers to.
func (k *block) child(i int) Ref {
	b := k.item(i)
	return Ref{
		Off: int64(binary.LittleEndian.Uint64(b)), Len: binary.LittleEndian.Uint32(b[8:]), Sum: binary.LittleEndian.Uint32(b[12:]),
	}
}

// search returns the first item with a key of at least key.
func (k *block) search(key []byte) int {
	return sort.Search(k.len(), func(i int) bool { return k.of.compare(k.key(i), key) >= 0 })
}

// below is the item of an inner block under which key lies, if anywhere.
func (k *block) below(key []byte) int {
	i := k.search(key)
	if i < k.len() && bytes.Equal(k.key(i), key) {
		return i
	}
	return max(i-1, 0)
}

// ErrSum is the cause where data is not what it was.
var ErrSum = errors.New("checksum differs")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of a block: CRC32C.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func readFull(f io.ReaderAt, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// read returns a block that was checked. What refers to it lies behind it. With keep, it is
// remembered.
func (t *Table) read(ref Ref, level int, before int64, keep bool) (*block, error) {
	places := t.leaves[:]
	if level > 0 {
		places = t.inner[:]
	}
	place := &places[uint64(ref.Off)*0x9e3779b97f4a7c15>>32%uint64(len(places))]
	if k := place.Load(); keep && k != nil && k.ref == ref && k.level == level {
		return k, nil
	}
	if ref.Off < 0 || ref.Len < 4 || int(ref.Len) > blockSize+t.layout.MaxItem+8 || ref.Off > before-int64(ref.Len) {
		return nil, fmt.Errorf("names a block of %d bytes at %d", ref.Len, ref.Off)
	}
	b := make([]byte, ref.Len)
	if err := readFull(t.f, b, ref.Off); err != nil {
		return nil, fmt.Errorf("block at %d: %w", ref.Off, err)
	}
	k := &block{ref: ref, of: t.layout, level: level}
	if err := k.parse(b); err != nil {
		return nil, fmt.Errorf("block at %d: %w", ref.Off, err)
	}
	if keep && len(b) <= keepBlock {
		place.Store(k)
	}
	return k, nil
}

// parse checks a block. An item that it accepts has a head and something behind it.
func (k *block) parse(b []byte) error {
	if Sum(b) != k.ref.Sum {
		return ErrSum
	}
	n := int64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	if n > int64(len(b)-4)/4 {
		return fmt.Errorf("%d items in %d bytes", n, len(b))
	}
	at := len(b) - 4 - 4*int(n)
	k.b, k.ends = b[:at], b[at:len(b)-4]
	head := k.of.Head + 1
	if k.level > 0 {
		head = innerHead
	}
	last := 0
	for i := range k.len() {
		end := int64(binary.LittleEndian.Uint32(k.ends[4*i:]))
		if end > int64(at) || end < int64(last+head) {
			return fmt.Errorf("item %d ends at %d", i, end)
		}
		last = int(end)
	}
	if last != at || k.level > 0 && n == 0 {
		return errors.New("items do not fill it")
	}
	return nil
}

// root is the block that the seal names.
func (t *Table) root() (*block, error) {
	if t.seal.Height < 0 || t.seal.Height > maxHeight {
		return nil, fmt.Errorf("a tree of height %d", t.seal.Height)
	}
	return t.read(t.seal.Root, t.seal.Height, t.seal.Size, true)
}

// child reads the block that the i-th item of an inner block refers to.
func (t *Table) child(k *block, i int, keep bool) (*block, error) {
	next, err := t.read(k.child(i), k.level-1, k.ref.Off, keep)
	if err == nil && next.len() == 0 { // else a walk over a forged table need not end
		err = fmt.Errorf("block at %d: empty", next.ref.Off)
	}
	return next, err
}

// Find returns the item of a key; nil where there is none. It is not to be changed.
func (t *Table) Find(key []byte) ([]byte, error) {
	k, err := t.root()
	for err == nil && k.level > 0 {
		k, err = t.child(k, k.below(key), true)
	}
	if err != nil {
		return nil, err
	}
	if i := k.search(key); i < k.len() && bytes.Equal(k.key(i), key) {
		return k.item(i), nil
	}
	return nil, nil
}

// ErrEnough ends a walk early.
var ErrEnough = errors.New("enough")

// Walk calls f with the items from key on, in order. It ends at f's first error,
// which it returns unless that is ErrEnough.
func (t *Table) Walk(key []byte, f func(item []byte) error) error {
	return t.walk(walk{t: t, from: key, f: f})
}

// Items yields all items, in order; an error comes last. The blocks below the root are not
// remembered, and an item belongs to the caller, unless the root is a leaf.
func (t *Table) Items(yield func([]byte, error) bool) {
	err := t.walk(walk{t: t, once: true, f: func(item []byte) error {
		if !yield(item, nil) {
			return ErrEnough
		}
		return nil
	}})
	if err != nil {
		yield(nil, err)
	}
}

func (t *Table) walk(w walk) error {
	k, err := t.root()
	if err != nil {
		return err
	}
	if err := w.block(k); !errors.Is(err, ErrEnough) {
		return err
	}
	return nil
}

// walk is one Walk under way.
type walk struct {
	t       *Table
	from    []byte
	f       func(item []byte) error
	once    bool // blocks are not remembered
	started bool
	last    []byte // the key before; keys ascend, else a walk need not end
}

func (w *walk) block(k *block) error {
	i := 0
	switch {
	case w.started:
	case k.level > 0:
		i = k.below(w.from)
	default:
		i, w.started = k.search(w.from), true
	}
	for ; i < k.len(); i++ {
		if k.level > 0 {
			next, err := w.t.child(k, i, !w.once)
			if err == nil {
				err = w.block(next)
			}
			if err != nil {
				return err
			}
			continue
		}
		p := k.key(i)
		if w.last != nil && w.t.layout.compare(w.last, p) >= 0 {
			return fmt.Errorf("%q comes after %q", p, w.last)
		}
		w.last = p
		if err := w.f(k.item(i)); err != nil {
			return err
		}
	}
	return nil
}
