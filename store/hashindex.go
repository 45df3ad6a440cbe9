package store

import (
	"hash/maphash"
	"strings"
	"sync"
)

// hashIndex finds the record of a result by sample and pipeline. It takes some 40 bytes of
// memory a result: it keeps hashes only, and the caller compares the record itself. It
// knows one result of a sample and pipeline, the one that was placed last: a result of
// another version of the sample, or of another implementation of the pipeline, supersedes
// it. It is safe for concurrent use.
type hashIndex struct {
	seed maphash.Seed

	mu   sync.RWMutex
	at   map[uint64]indexed // by hash of the path and the steps
	live int64              // bytes of all records that are found
}

type indexed struct {
	at      location
	version uint32 // hash of the sample's identity and the implementations of the steps
	units   uint32 // that the record takes in its pack
}

// unit is in what the index counts the bytes of a record.
const unit = 64

// location is where a record begins: the pack's number above offsetBits bits of
// offset.
type location uint64

const (
	offsetBits   = 40
	maxPackBytes = 1 << 39
	maxPacks     = 1<<(64-offsetBits) - 1
)

func locate(pack uint32, off int64) location {
	return location(uint64(pack)<<offsetBits | uint64(off))
}

func (l location) pack() uint32  { return uint32(l >> offsetBits) }
func (l location) offset() int64 { return int64(l & (1<<offsetBits - 1)) }

// resultKey is what a result is looked up by.
type resultKey struct {
	path string
	src  Identity
	key  string
}

func newHashIndex() *hashIndex {
	return &hashIndex{seed: maphash.MakeSeed(), at: map[uint64]indexed{}}
}

// hash of a name is replaced by tests that want collisions.
var nameHash = func(seed maphash.Seed, path, steps string) uint64 {
	return maphash.Comparable(seed, [2]string{path, steps})
}

func (x *hashIndex) hash(k resultKey) (name uint64, version uint32) {
	type made struct {
		of Identity
		by string
	}
	steps, by, _ := strings.Cut(k.key, "@")
	return nameHash(x.seed, k.path, steps), uint32(maphash.Comparable(x.seed, made{k.src, by}))
}

// place says where a result lies, and what its record takes in bytes.
func (x *hashIndex) place(k resultKey, at location, bytes int64) {
	name, version := x.hash(k)
	x.mu.Lock()
	defer x.mu.Unlock()
	is := indexed{at, version, uint32(min((bytes+unit-1)/unit, 1<<32-1))}
	x.live += (int64(is.units) - int64(x.at[name].units)) * unit
	x.at[name] = is
}

func (x *hashIndex) forget(k resultKey) {
	name, version := x.hash(k)
	x.mu.Lock()
	defer x.mu.Unlock()
	if was, ok := x.at[name]; ok && was.version == version {
		x.live -= int64(was.units) * unit
		delete(x.at, name)
	}
}

func (x *hashIndex) find(k resultKey) (location, bool) {
	name, version := x.hash(k)
	x.mu.RLock()
	defer x.mu.RUnlock()
	is, ok := x.at[name]
	return is.at, ok && is.version == version
}

// keepOnly forgets all but some results.
func (x *hashIndex) keepOnly(some func(yield func(resultKey) bool)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.at
	x.at, x.live = make(map[uint64]indexed, len(was)), 0
	for k := range some {
		name, version := x.hash(k)
		if is, ok := was[name]; ok && is.version == version {
			x.at[name] = is
			x.live += int64(is.units) * unit
		}
	}
}

func (x *hashIndex) count() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return int64(len(x.at))
}

func (x *hashIndex) liveBytes() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.live
}

// liveIn is what is found of a pack.
type liveIn struct{ records, bytes int64 }

// byPack counts what is found of each pack.
func (x *hashIndex) byPack() map[uint32]liveIn {
	x.mu.RLock()
	defer x.mu.RUnlock()
	packs := map[uint32]liveIn{}
	for _, is := range x.at {
		n := is.at.pack()
		was := packs[n]
		packs[n] = liveIn{was.records + 1, was.bytes + int64(is.units)*unit}
	}
	return packs
}
