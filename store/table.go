package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/pipefs/pipefs/store/vfs"
)

// A table is a sorted file of entries that never changes: a tree of blocks, the
// entries in its leaves. Whatever refers to a block knows its checksum, from the
// SEAL down, and a block is used only if it has that. So damage is an error, never a
// missing name: that a name is not there is as well proven as that it is. The file is
// read, not mapped: where it was truncated a read fails.
type table struct {
	f    vfs.File
	seal tableSeal
	// Blocks that were read lately, in places that follow from their offset.
	inner  [128]atomic.Pointer[block]
	leaves [512]atomic.Pointer[block]
}

// tableSeal is what a SEAL says of the table.
type tableSeal struct {
	Size   int64    `json:"size"` // bytes
	Height int      `json:"height"`
	Root   blockRef `json:"root"`
}

// blockRef is where a block lies.
type blockRef struct {
	Off int64  `json:"offset"`
	Len uint32 `json:"length"`
	Sum uint32 `json:"crc32c"`
}

const (
	// blockSize is what a block is filled up to, in bytes: as much as is read at once.
	blockSize = 16 << 10
	// maxBlock bounds a block: one item always fits.
	maxBlock = blockSize + maxEntry + leafHead + 8
	// maxHeight is far above what any number of entries needs.
	maxHeight = 16
	// keepBlock is the longest block that is remembered, in bytes.
	keepBlock = 64 << 10

	leafHead  = 20 // of an item: pack, offset and length of the record's data
	innerHead = 16 // of an item: offset, length, checksum of the block below
)

// block holds items: of a leaf, places and entries; of an inner block, the blocks
// below and the path of the first entry in each.
type block struct {
	ref   blockRef
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

// path is that of the i-th item.
func (k *block) path(i int) []byte {
	if k.level > 0 {
		return k.item(i)[innerHead:]
	}
	return entryPath(k.item(i)[leafHead:])
}

// child is the block below that the i-th item refers to.
func (k *block) child(i int) blockRef {
	b := k.item(i)
	return blockRef{
		Off: int64(binary.LittleEndian.Uint64(b)), Len: binary.LittleEndian.Uint32(b[8:]), Sum: binary.LittleEndian.Uint32(b[12:]),
	}
}

// search returns the first item with a path of at least path.
func (k *block) search(path []byte) int {
	return sort.Search(k.len(), func(i int) bool { return comparePaths(k.path(i), path) >= 0 })
}

// below is the item of an inner block under which path lies, if anywhere.
func (k *block) below(path []byte) int {
	i := k.search(path)
	if i < k.len() && bytes.Equal(k.path(i), path) {
		return i
	}
	return max(i-1, 0)
}

// entryPath is the path of an encoded entry; empty where it cannot be read.
func entryPath(raw []byte) []byte {
	n, k := binary.Uvarint(raw)
	if k <= 0 || n > uint64(len(raw)-k) {
		return nil
	}
	return raw[k : k+int(n)]
}

// comparePaths orders by directory, then by name: what a directory holds lies
// together.
func comparePaths(a, b []byte) int {
	i, j := max(bytes.LastIndexByte(a, '/'), 0), max(bytes.LastIndexByte(b, '/'), 0)
	if c := bytes.Compare(a[:i], b[:j]); c != 0 {
		return c
	}
	return bytes.Compare(a[i:], b[j:])
}

// splitPath divides a path into directory and name.
func splitPath(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p
	}
	return p[:i], p[i+1:]
}

// inDir reports whether a path names a member of a directory.
func inDir(path []byte, dir string) bool {
	i := max(bytes.LastIndexByte(path, '/'), 0)
	return len(path) > 0 && string(path[:i]) == dir
}

// read returns a block that was checked. What refers to it lies behind it.
func (t *table) read(ref blockRef, level int, before int64) (*block, error) {
	places := t.leaves[:]
	if level > 0 {
		places = t.inner[:]
	}
	place := &places[uint64(ref.Off)*0x9e3779b97f4a7c15>>32%uint64(len(places))]
	if k := place.Load(); k != nil && k.ref == ref && k.level == level {
		return k, nil
	}
	if ref.Off < 0 || ref.Len < 4 || ref.Len > maxBlock || ref.Off > before-int64(ref.Len) {
		return nil, fmt.Errorf("names a block of %d bytes at %d", ref.Len, ref.Off)
	}
	b := make([]byte, ref.Len)
	if err := readFull(t.f, b, ref.Off); err != nil {
		return nil, fmt.Errorf("block at %d: %w", ref.Off, err)
	}
	k := &block{ref: ref, level: level}
	if err := k.parse(b); err != nil {
		return nil, fmt.Errorf("block at %d: %w", ref.Off, err)
	}
	if len(b) <= keepBlock {
		place.Store(k)
	}
	return k, nil
}

// parse checks a block. An item that it accepts has a head, and an entry has a path.
func (k *block) parse(b []byte) error {
	if sum(b) != k.ref.Sum {
		return errSum
	}
	n := int64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	if n > int64(len(b)-4)/4 {
		return fmt.Errorf("%d items in %d bytes", n, len(b))
	}
	at := len(b) - 4 - 4*int(n)
	k.b, k.ends = b[:at], b[at:len(b)-4]
	head := leafHead + 1
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

// root is the block that the SEAL names.
func (t *table) root() (*block, error) {
	if t.seal.Height < 0 || t.seal.Height > maxHeight {
		return nil, fmt.Errorf("a tree of height %d", t.seal.Height)
	}
	return t.read(t.seal.Root, t.seal.Height, t.seal.Size)
}

// child reads the block that the i-th item of an inner block refers to.
func (t *table) child(k *block, i int) (*block, error) {
	next, err := t.read(k.child(i), k.level-1, k.ref.Off)
	if err == nil && next.len() == 0 { // else a walk over a forged table need not end
		err = fmt.Errorf("block at %d: empty", next.ref.Off)
	}
	return next, err
}

// find returns the item of a path; nil where there is none. It is not to be changed.
func (t *table) find(path string) ([]byte, error) {
	key := []byte(path)
	k, err := t.root()
	for err == nil && k.level > 0 {
		k, err = t.child(k, k.below(key))
	}
	if err != nil {
		return nil, err
	}
	if i := k.search(key); i < k.len() && bytes.Equal(k.path(i), key) {
		return k.item(i), nil
	}
	return nil, nil
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// walk calls f with the items from path on, in order. It ends at f's first error,
// which it returns unless that is errEnough.
func (t *table) walk(path string, f func(item []byte) error) error {
	k, err := t.root()
	if err != nil {
		return err
	}
	w := tableWalk{t: t, from: []byte(path), f: f}
	if err := w.block(k); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

type tableWalk struct {
	t       *table
	from    []byte
	f       func(item []byte) error
	started bool
	last    []byte // the path before; paths ascend, else a walk need not end
}

func (w *tableWalk) block(k *block) error {
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
			next, err := w.t.child(k, i)
			if err == nil {
				err = w.block(next)
			}
			if err != nil {
				return err
			}
			continue
		}
		p := k.path(i)
		if w.last != nil && comparePaths(w.last, p) >= 0 {
			return fmt.Errorf("%q comes after %q", p, w.last)
		}
		w.last = p
		if err := w.f(k.item(i)); err != nil {
			return err
		}
	}
	return nil
}
