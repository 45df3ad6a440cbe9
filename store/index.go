package store

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"path"

	"github.com/pipefs/pipefs/internal/sstable"
)

// index is the table that finds the entries of a store by their paths, merged from the
// segments of a generation. It can be made again.
type index struct {
	*table
	name    string   // for messages
	numbers []uint32 // of packs, as [edition] has them
}

// broken makes the error of a place in the index.
func (x *index) broken(p string, cause error) error {
	if cause == nil {
		return nil
	}
	return tableError(path.Join(x.name, p), cause)
}

// cutItem divides an item of a leaf into where its record lies and the entry.
func cutItem(item []byte) (place, []byte, error) {
	at := place{
		pack: binary.LittleEndian.Uint32(item),
		base: int64(binary.LittleEndian.Uint64(item[4:])),
		size: int64(binary.LittleEndian.Uint64(item[12:])),
	}
	if at.base < 0 || at.base > maxLen || at.size < 0 || at.size > maxLen {
		return place{}, nil, fmt.Errorf("a record of %d bytes at %d", at.size, at.base)
	}
	return at, item[leafHead:], nil
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

// get returns the entry of a path, nil where there is none. Every error is one of
// the index.
func (x *index) get(p string) (*Sample, error) {
	item, err := x.Find([]byte(p))
	if err != nil || item == nil {
		return nil, x.broken(p, err)
	}
	s, err := decodeNumbered(item, x.numbers)
	return &s, x.broken(p, err)
}

// list returns what a directory holds, by name.
func (x *index) list(dir string) ([]Child, error) {
	var children []Child
	from := dir
	if dir != "" {
		from += "/"
	}
	err := x.Walk([]byte(from), func(item []byte) error {
		p := itemPath(item)
		if len(p) == 0 {
			return nil // the dataset itself
		}
		if !inDir(p, dir) {
			return sstable.ErrEnough
		}
		d := decoder{b: item[leafHead:]}
		s := decodeHead(&d)
		_, name := splitPath(s.Path)
		children = append(children, Child{Name: name, Kind: s.Kind, Seq: s.Seq})
		return d.err
	})
	return children, x.broken(dir, err)
}

// each calls f with every entry, in order.
func (x *index) each(f func(*Sample) error) error {
	n := int64(0)
	var own error // of f
	err := x.Walk(nil, func(item []byte) error {
		s, err := decodeNumbered(item, x.numbers)
		if err != nil {
			return err
		}
		n++
		own = f(&s)
		return own
	})
	switch {
	case own != nil:
		return own
	case err == nil && n != x.seal.Entries:
		err = fmt.Errorf("%d entries, want %d", n, x.seal.Entries)
	}
	return x.broken("", err)
}

func (x *index) close(log *slog.Logger) {
	if err := x.f.Close(); err != nil { // only read
		log.Debug("close the index", "index", x.name, "error", err)
	}
}
