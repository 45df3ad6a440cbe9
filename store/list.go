package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// A list is a file of items in the order of [ComparePaths], to be read from front to back: blocks
// with checksums, and a trailer that says what it is of. An item says where a record lies, and
// has an entry of it.
const (
	listMagic   = "pipefsLS"
	listVersion = 1
	listTrailer = 48
	// listBlock is what a block is filled up to, in bytes.
	listBlock = 64 << 10
	blockHead = 8 // of a block: its length, its checksum

	// itemHead is what stands before the entry in an item: pack, offset and length of the
	// record's data.
	itemHead = 20
	maxItem  = itemHead + maxEntry
	// maxBlock is a block that was not quite full, and one item more.
	maxBlock = listBlock + maxItem + binary.MaxVarintLen64
)

// items yields items in order. They must not be kept. An error is the last.
type items = iter.Seq2[[]byte, error]

// ComparePaths compares paths as the index of a store has them: by directory, then by name.
func ComparePaths[T string | []byte](a, b T) int {
	aDir, aName := splitPath(string(a))
	bDir, bName := splitPath(string(b))
	if c := strings.Compare(aDir, bDir); c != 0 {
		return c
	}
	return strings.Compare(aName, bName)
}

// splitPath divides a path into directory and name.
func splitPath(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p
	}
	return p[:i], p[i+1:]
}

// appendItem appends the head of an item. A segment has one pack, which is number 0.
func appendItem(b []byte, at place) []byte {
	b = binary.LittleEndian.AppendUint32(b, at.pack)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.base))
	return binary.LittleEndian.AppendUint64(b, uint64(at.size))
}

// cutItem divides an item into where its record lies and the entry.
func cutItem(item []byte) (place, []byte, error) {
	if len(item) < itemHead {
		return place{}, nil, errShort
	}
	at := place{
		pack: binary.LittleEndian.Uint32(item),
		base: int64(binary.LittleEndian.Uint64(item[4:])),
		size: int64(binary.LittleEndian.Uint64(item[12:])),
	}
	if at.base < 0 || at.base > maxLen || at.size < 0 || at.size > maxLen {
		return place{}, nil, fmt.Errorf("a record of %d bytes at %d", at.size, at.base)
	}
	return at, item[itemHead:], nil
}

func decodeItem(item []byte) (Sample, error) { return decodeNumbered(item, nil) }

// decodeNumbered is decodeItem where packs have other numbers.
func decodeNumbered(item []byte, numbers []uint32) (Sample, error) {
	at, raw, err := cutItem(item)
	if err != nil {
		return Sample{}, err
	}
	if numbers != nil {
		if int64(at.pack) >= int64(len(numbers)) {
			return Sample{}, fmt.Errorf("pack %d of %d", at.pack, len(numbers))
		}
		at.pack = numbers[at.pack]
	}
	return decodeEntry(raw, at)
}

// entryPath is the path of an encoded entry; empty where it cannot be read.
func entryPath(raw []byte) []byte {
	d := decoder{b: raw}
	return d.bytes("length of the path", maxPath)
}

func itemPath(item []byte) []byte { return entryPath(item[itemHead:]) }

// itemKind is the kind of an item's entry; 0 where it cannot be read.
func itemKind(item []byte) Kind {
	d := decoder{b: item[itemHead:]}
	d.bytes("length of the path", maxPath)
	return Kind(d.byte())
}

// listSeal describes a list.
type listSeal struct {
	Size  int64 // of the file, in bytes
	Items int64
	Of    packID // of a segment its pack
	Sum   uint32 // of the heads of the blocks, and so of every byte
}

func (s *listSeal) trailer() []byte {
	b := make([]byte, 0, listTrailer)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Items))
	b = append(b, s.Of[:]...)
	b = binary.LittleEndian.AppendUint32(b, s.Sum)
	b = binary.LittleEndian.AppendUint32(b, listVersion)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, sum(b))
	return append(b, listMagic...)
}

// segment is how a generation names the list as a segment.
func (s *listSeal) segment() segmentSeal {
	return segmentSeal{s.Size, binary.LittleEndian.Uint32(s.trailer()[listTrailer-12:])}
}

// list is a list that is open.
type list struct {
	f    vfs.File
	seal listSeal
}

// openList takes over a file if it is a list, and of what it should be of, and closes it if it is
// not. Its blocks are checked when they are read.
func openList(f vfs.File, of packID) (*list, error) {
	l := &list{f: f}
	err := l.readSeal()
	if err == nil && l.seal.Of != of {
		err = errors.New("of another pack")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

func (l *list) readSeal() (err error) {
	s := &l.seal
	if s.Size, err = l.f.Size(); err != nil {
		return err
	}
	if s.Size < listTrailer {
		return errShort
	}
	var b [listTrailer]byte
	if err := readFull(l.f, b[:], s.Size-listTrailer); err != nil {
		return err
	}
	s.Items = int64(binary.LittleEndian.Uint64(b[:]))
	s.Of = packID(b[8:24])
	s.Sum = binary.LittleEndian.Uint32(b[24:])
	switch {
	case string(b[listTrailer-8:]) != listMagic:
		return errors.New("no trailer: it is truncated or overwritten")
	case sum(b[:listTrailer-12]) != binary.LittleEndian.Uint32(b[listTrailer-12:]):
		return fmt.Errorf("trailer: %w", errSum)
	case binary.LittleEndian.Uint32(b[28:]) != listVersion:
		return errors.New("of another version")
	}
	return nil
}

// items yields the items of a list. It can be called any number of times.
func (l *list) items(yield func([]byte, error) bool) {
	if err := l.each(func(item []byte) bool { return yield(item, nil) }); err != nil {
		yield(nil, err)
	}
}

func (l *list) each(yield func(item []byte) bool) error {
	r := bufio.NewReaderSize(io.NewSectionReader(l.f, 0, l.seal.Size-listTrailer), listBlock)
	var block, last []byte
	heads, n := uint32(0), int64(0)
	for {
		var head [blockHead]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		length := binary.LittleEndian.Uint32(head[:])
		if length > maxBlock {
			return fmt.Errorf("a block of %d bytes", length)
		}
		block = slices.Grow(block[:0], int(length))[:length]
		if _, err := io.ReadFull(r, block); err != nil {
			return err
		}
		if sum(block) != binary.LittleEndian.Uint32(head[4:]) {
			return errSum
		}
		heads = updateSum(heads, head[:])
		for d := (decoder{b: block}); len(d.b) > 0; n++ {
			item := d.bytes("length of an item", maxItem)
			if len(item) <= itemHead {
				return errors.New("items do not fill a block")
			}
			path := itemPath(item)
			if n > 0 && ComparePaths(last, path) >= 0 {
				return fmt.Errorf("%q comes after %q", path, last)
			}
			last = append(last[:0], path...)
			if !yield(item) {
				return nil
			}
		}
	}
	if n != l.seal.Items || heads != l.seal.Sum {
		return fmt.Errorf("%d items are not the %d that were written", n, l.seal.Items)
	}
	return nil
}

// listWriter writes a list into an empty file.
type listWriter struct {
	f     vfs.File
	seal  listSeal
	block []byte // that is being filled, with room for its head
}

func newListWriter(f vfs.File) *listWriter {
	return &listWriter{f: f, block: make([]byte, blockHead, listBlock+blockHead)}
}

// add appends an item: a head of itemHead bytes and the encoded entry.
func (w *listWriter) add(item []byte) error {
	w.seal.Items++
	w.block = binary.AppendUvarint(w.block, uint64(len(item)))
	w.block = append(w.block, item...)
	if len(w.block) < listBlock {
		return nil
	}
	return w.flush()
}

func (w *listWriter) flush() error {
	if len(w.block) == blockHead {
		return nil
	}
	binary.LittleEndian.PutUint32(w.block, uint32(len(w.block)-blockHead))
	binary.LittleEndian.PutUint32(w.block[4:], sum(w.block[blockHead:]))
	w.seal.Sum = updateSum(w.seal.Sum, w.block[:blockHead])
	_, err := w.f.WriteAt(w.block, w.seal.Size)
	w.seal.Size += int64(len(w.block))
	w.block = w.block[:blockHead]
	return err
}

// finish writes what is left, and the trailer. It does not sync.
func (w *listWriter) finish(of packID) (listSeal, error) {
	if err := w.flush(); err != nil {
		return w.seal, err
	}
	w.seal.Of = of
	_, err := w.f.WriteAt(w.seal.trailer(), w.seal.Size)
	w.seal.Size += listTrailer
	return w.seal, err
}

// damaged makes the error of a file of the index. What the operating system refuses is no
// corruption and stays what it is.
func damaged(name string, cause error) error {
	switch {
	case cause == nil:
		return nil
	case isIOError(cause):
		return fmt.Errorf("%s: %w", name, cause)
	}
	return &CorruptError{Path: name, Cause: cause}
}
