package shard

import (
	"encoding/binary"
	"errors"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
)

// Entry is what is to be packed: a file, a directory, or a tombstone of what is gone.
type Entry struct {
	Path     string
	Kind     store.Kind
	Mode     uint32
	Identity store.Identity
	// Version is that of the object, where the dataset is in a bucket.
	Version blob.Version
}

// appendEntry appends an entry. What its path has in common with the one before is left out.
func appendEntry(b []byte, e *Entry, before string) []byte {
	same := 0
	for same < min(len(e.Path), len(before)) && e.Path[same] == before[same] {
		same++
	}
	b = binary.AppendUvarint(b, uint64(same))
	b = binary.AppendUvarint(b, uint64(len(e.Path)-same))
	b = append(b, e.Path[same:]...)
	b = append(b, byte(e.Kind))
	if e.Kind == store.Tombstone {
		return b
	}
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendUvarint(b, uint64(e.Identity.Size))
	b = append(b, e.Identity.Version[:]...)
	b = binary.AppendUvarint(b, uint64(len(e.Version)))
	return append(b, e.Version...)
}

const (
	maxPath    = 4096
	maxVersion = 1024
)

var errEntry = errors.New("an entry ends too early, or is over the limits")

// cutEntry reads what appendEntry wrote, and returns what follows.
func cutEntry(b []byte, before string) (e Entry, rest []byte, err error) {
	ok := true
	number := func(limit uint64) uint64 {
		n, k := binary.Uvarint(b)
		if ok = ok && k > 0 && n <= limit; !ok {
			return 0
		}
		b = b[k:]
		return n
	}
	take := func(n uint64) []byte {
		if ok = ok && n <= uint64(len(b)); !ok {
			return nil
		}
		t := b[:n]
		b = b[n:]
		return t
	}
	same := number(uint64(len(before)))
	e.Path = before[:same] + string(take(number(maxPath)))
	if k := take(1); ok {
		e.Kind = store.Kind(k[0])
	}
	if e.Kind != store.Tombstone {
		e.Mode = uint32(number(0o7777))
		e.Identity.Size = int64(number(1 << 62))
		copy(e.Identity.Version[:], take(uint64(len(e.Identity.Version))))
		e.Version = blob.Version(take(number(maxVersion)))
	}
	if !ok {
		return Entry{}, nil, errEntry
	}
	return e, b, store.CheckEntry(e.Path, e.Kind)
}

// EachEntry calls f with the entries of a shard, whose block it gets. It ends at the first error.
func (p *Plan) EachEntry(r Row, block []byte, f func(seq int64, e Entry) error) error {
	before := ""
	for i := range r.Entries {
		e, rest, err := cutEntry(block, before)
		if err != nil {
			return p.broken("entry %d: %w", r.First+i, err)
		}
		if err := f(p.FirstSeq+r.First+i, e); err != nil {
			return err
		}
		block, before = rest, e.Path
	}
	if len(block) > 0 {
		return p.broken("%d bytes behind entry %d", len(block), r.First+r.Entries)
	}
	return nil
}
