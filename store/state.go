package store

import (
	"hash/maphash"
)

// state is what a writer knows of the entries in a store: which files can be skipped and
// which are gone, in some 60 bytes an entry. Paths are kept
// as hashes of 128 bits, different in every process.
type state struct {
	paths, rest, print maphash.Seed
	facts              map[pathHash]fact
	seq                int64 // the next sequence number
}

type pathHash [2]uint64

type fact struct {
	print   uint64 // of kind, mode and identity
	current bool   // the encoder would make the same again
	seen    bool   // the walk met it
}

// version distinguishes two versions of an entry.
type version struct {
	kind Kind
	mode uint32
	id   Identity
}

// mostExpected bounds what a generation can make a writer allocate.
const mostExpected = 1 << 21

// newState is a state for about so many entries.
func newState(entries int64) *state {
	return &state{
		paths: maphash.MakeSeed(), rest: maphash.MakeSeed(), print: maphash.MakeSeed(),
		facts: make(map[pathHash]fact, min(max(entries, 0), mostExpected)),
	}
}

func (t *state) hash(path string) pathHash {
	return pathHash{maphash.String(t.paths, path), maphash.String(t.rest, path)}
}

func (t *state) fingerprint(v version) uint64 { return maphash.Comparable(t.print, v) }

// digest is what is to be known of a stored entry.
type digest struct {
	path pathHash
	fact
	seq  int64
	gone bool // it is a tombstone
}

func (t *state) digest(s *Sample, current bool) digest {
	return digest{
		path: t.hash(s.Path), seq: s.Seq, gone: s.Kind == Tombstone,
		fact: fact{print: t.fingerprint(version{s.Kind, s.Mode, s.Source}), current: current},
	}
}

// add takes in stored entries; later ones replace earlier ones.
func (t *state) add(entries []digest) {
	for i := range entries {
		e := &entries[i]
		t.seq = max(t.seq, e.seq+1)
		if e.gone {
			delete(t.facts, e.path)
		} else {
			t.facts[e.path] = e.fact
		}
	}
}

// meet marks what the walk found as there, and reports whether it is stored as
// it is.
func (t *state) meet(f SourceFile) bool {
	h := t.hash(f.Path)
	old, ok := t.facts[h]
	if !ok {
		// not stored; remembered so that it counts as seen once it is
		t.facts[h] = fact{seen: true}
		return false
	}
	same := old.current && old.print == t.fingerprint(version{f.Kind, f.Mode, f.Identity})
	old.seen = true
	t.facts[h] = old
	return same
}

// gone reports whether a path is stored and was not met.
func (t *state) gone(path string) bool {
	f, ok := t.facts[t.hash(path)]
	return ok && !f.seen
}

// anyGone reports whether a path is stored that was not met.
func (t *state) anyGone() bool {
	for _, f := range t.facts {
		if !f.seen {
			return true
		}
	}
	return false
}
