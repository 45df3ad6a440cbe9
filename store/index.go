package store

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"path"
	"slices"
)

// An index generation: a directory with a table, and a SEAL that describes it.
const (
	currentName = "CURRENT"
	sealName    = "SEAL"
	tableName   = "TABLE"
	indexPrefix = "index."
	tmpSuffix   = ".tmp"
	keepIndexes = 2
	// indexVersion is that of the SEAL; an index of another one is refused.
	indexVersion = 2
)

// currentFile names the generation to use, and the checksum of its SEAL.
type currentFile struct {
	Index string `json:"index"`
	Seal  string `json:"seal_crc32c"` // hexadecimal
}

// sealFile describes a generation completely: which packs it was made from, and
// which bytes it has.
type sealFile struct {
	Version int        `json:"version"`
	Stats   Stats      `json:"stats"`
	Entries int64      `json:"entries"`
	Packs   []packSeal `json:"packs"`
	Table   tableSeal  `json:"table"`
}

// index is an open generation.
type index struct {
	table
	name string // for messages
	seal sealFile
}

// samePacks reports whether two indexes were made from the same packs, and so hold
// the same entries.
func (f *sealFile) samePacks(g *sealFile) bool {
	return slices.EqualFunc(f.Packs, g.Packs, func(a, b packSeal) bool {
		return a.Number == b.Number && a.Size == b.Size && a.FooterSum == b.FooterSum
	})
}

func (x *index) close(log *slog.Logger) {
	if err := x.f.Close(); err != nil { // only read
		log.Debug("close the index", "index", x.name, "error", err)
	}
}

// broken makes the error of a place in the index. What the operating system refuses
// is no corruption and stays what it is.
func (x *index) broken(p string, cause error) error {
	switch {
	case cause == nil:
		return nil
	case isIOError(cause):
		return fmt.Errorf("%s: %w", path.Join(x.name, p), cause)
	}
	return &CorruptError{Path: path.Join(x.name, p), Cause: cause}
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

func decodeItem(item []byte) (Sample, error) {
	at, raw, err := cutItem(item)
	if err != nil {
		return Sample{}, err
	}
	return decodeEntry(raw, at)
}

// get returns the entry of a path, nil where there is none. Every error is one of
// the index.
func (x *index) get(p string) (*Sample, error) {
	item, err := x.find(p)
	if err != nil || item == nil {
		return nil, x.broken(p, err)
	}
	s, err := decodeItem(item)
	return &s, x.broken(p, err)
}

// list returns what a directory holds, by name.
func (x *index) list(dir string) ([]Child, error) {
	var children []Child
	from := dir
	if dir != "" {
		from += "/"
	}
	err := x.walk(from, func(item []byte) error {
		p := itemPath(item)
		if len(p) == 0 {
			return nil // the dataset itself
		}
		if !inDir(p, dir) {
			return errEnough
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
	err := x.walk("", func(item []byte) error {
		s, err := decodeItem(item)
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
