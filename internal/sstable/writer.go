package sstable

import (
	"encoding/binary"
	"io"
)

// Writer writes a table from items in the order of their keys. It takes
// memory for one block a level. The same items make the same bytes.
type Writer struct {
	f      io.WriterAt
	layout *Layout
	limit  int // of a block, bytes
	off    int64
	out    []byte // on its way to the file
	levels []openBlock
}

// openBlock is a block that is being filled.
type openBlock struct {
	b     []byte
	ends  []uint32
	first []byte // key of its first item
}

// writeAhead is how much is written at once, in bytes.
const writeAhead = 1 << 20

// NewWriter returns a writer of a table that begins where f does.
func NewWriter(f io.WriterAt, l *Layout) *Writer {
	return &Writer{f: f, layout: l, limit: blockSize, levels: make([]openBlock, 1)}
}

// Limit sets how many bytes a block is filled up to, for tests.
func (w *Writer) Limit(bytes int) { w.limit = bytes }

// Add appends an item.
func (w *Writer) Add(item []byte) error { return w.put(0, item, w.layout.key(item)) }

func (w *Writer) put(level int, item, key []byte) error {
	if level == len(w.levels) {
		w.levels = append(w.levels, openBlock{})
	}
	k := &w.levels[level]
	// An inner block has two items at least, so that the tree ends.
	if len(k.ends) > min(level, 1) && len(k.b)+4*len(k.ends)+len(item)+8 > w.limit {
		if err := w.end(level); err != nil {
			return err
		}
		k = &w.levels[level]
	}
	if len(k.ends) == 0 {
		k.first = append(k.first[:0], key...)
	}
	k.b = append(k.b, item...)
	k.ends = append(k.ends, uint32(len(k.b)))
	return nil
}

// end writes the block of a level and enters it in the level above.
func (w *Writer) end(level int) error {
	ref, err := w.write(level)
	if err != nil {
		return err
	}
	first := w.levels[level].first
	item := binary.LittleEndian.AppendUint64(make([]byte, 0, innerHead+len(first)), uint64(ref.Off))
	item = binary.LittleEndian.AppendUint32(item, ref.Len)
	item = binary.LittleEndian.AppendUint32(item, ref.Sum)
	return w.put(level+1, append(item, first...), first)
}

// write writes the block of a level, which is empty then.
func (w *Writer) write(level int) (Ref, error) {
	k := &w.levels[level]
	at := len(w.out)
	w.out = append(w.out, k.b...)
	for _, end := range k.ends {
		w.out = binary.LittleEndian.AppendUint32(w.out, end)
	}
	w.out = binary.LittleEndian.AppendUint32(w.out, uint32(len(k.ends)))
	k.b, k.ends = k.b[:0], k.ends[:0]
	ref := Ref{Off: w.off + int64(at), Len: uint32(len(w.out) - at), Sum: Sum(w.out[at:])}
	if len(w.out) < writeAhead {
		return ref, nil
	}
	return ref, w.flush()
}

func (w *Writer) flush() error {
	_, err := w.f.WriteAt(w.out, w.off)
	w.off += int64(len(w.out))
	w.out = w.out[:0]
	return err
}

// Finish writes what is left and describes the table. It does not sync.
func (w *Writer) Finish() (Seal, error) {
	level := 0
	for ; level < len(w.levels)-1; level++ { // the last one is the root's
		if len(w.levels[level].ends) == 0 {
			continue
		}
		if err := w.end(level); err != nil {
			return Seal{}, err
		}
	}
	root, err := w.write(level)
	if err == nil {
		err = w.flush()
	}
	return Seal{Size: w.off, Height: level, Root: root}, err
}
