package store

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/store/vfs"
)

// results are packs in which each record holds one result: what a pipeline made of one
// version of one sample. An overlay and a fraction are kept so. Each result can be made
// again, so what is damaged or gone is not found, and that is all. Safe for concurrent use.
type results struct {
	*hashIndex
	fs   vfs.FS
	what string // "overlay" or "fraction", for messages
	dir  string // of the packs
	log  *slog.Logger
	pool *pool

	damage sync.Mutex
	warned map[uint32]bool    // packs that were found damaged or gone
	lost   map[resultKey]bool // what was found in them once
}

func newResults(what, dir string, o Options) *results {
	return &results{
		hashIndex: newHashIndex(), fs: o.FS, what: what, dir: dir, log: o.Logger, pool: newPool(o.FS, dir, packName.String, o.MaxOpenPacks),
		warned: map[uint32]bool{}, lost: map[resultKey]bool{},
	}
}

// Has reports whether Get finds something, unless it is damaged.
func (r *results) Has(path string, src Identity, key string) bool {
	_, ok := r.find(resultKey{path, src, key})
	return ok
}

// Lost reports whether an error of reading a result, of an [Overlay] or a [Fraction], means that it is of no
// use, and has to be made again: it is damaged or gone, what should be its file is a link, a FIFO or a
// directory, or the disk fails.
func Lost(err error) bool {
	var failed unix.Errno
	return errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFound) ||
		errors.Is(err, vfs.ErrNotRegular) || errors.As(err, &failed)
}

// Get finds what is kept of that version of a file under that key. ErrNotFound says that
// there is nothing, or nothing that still holds. Every other error is the operating
// system's.
func (r *results) Get(path string, src Identity, key string) (Representation, error) {
	k := resultKey{path, src, key}
	s, err := r.sample(k)
	if err == nil {
		return *s.Representation(key), nil
	}
	if Lost(err) {
		if at, ok := r.find(k); ok {
			r.warn(at.pack(), err)
			r.Forget(path, src, key)
		}
		err = fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return Representation{}, err
}

// Forget makes Get find nothing. It is for a caller whose Reader failed.
func (r *results) Forget(path string, src Identity, key string) {
	k := resultKey{path, src, key}
	r.damage.Lock()
	defer r.damage.Unlock()
	if _, ok := r.find(k); ok {
		r.lost[k] = true
	}
	r.forget(k)
}

// Reader opens a representation at a level; 0 is the whole.
func (r *results) Reader(rep Representation, level int) (*Reader, error) {
	for {
		reader, err := r.pool.reader(rep, level)
		if !errors.Is(err, ErrNotFound) {
			return reader, err
		}
		now, again := r.Get(rep.path, rep.src, rep.Key)
		if again != nil {
			return nil, again
		}
		rep = now // its pack was rewritten since it was found
	}
}

// warn logs that a pack is damaged, once.
func (r *results) warn(number uint32, cause error) {
	r.damage.Lock()
	defer r.damage.Unlock()
	if !r.warned[number] {
		r.warned[number] = true
		r.log.Warn("a pack of the "+r.what+" is damaged or gone; what it held is made again", r.what, r.dir, "pack", r.name(number), "error", cause)
	}
}

// name is that of a pack by its number, which is its age.
func (r *results) name(number uint32) packName {
	if p, err := r.pool.get(number); err == nil {
		return p.name()
	}
	return packName{age: uint64(number)}
}

// bytes is what a record takes in a pack, its place in the footer included.
func (rec *scanned) bytes() int64 { return rec.end - rec.off + int64(len(rec.meta)) }

func (rec *scanned) location() location { return locate(rec.at.pack, rec.off) }

// keys are what the results of a record are looked up by.
func (rec *scanned) keys(yield func(resultKey) bool) {
	for i := range rec.samples {
		s := &rec.samples[i]
		for j := range s.Representations {
			if !yield(resultKey{s.Path, s.Source, s.Representations[j].Key}) {
				return
			}
		}
	}
}

// know takes in what a record holds; what comes later replaces what was there.
func (r *results) know(rec scanned) {
	for k := range rec.keys {
		r.place(k, rec.location(), rec.bytes())
	}
}

// live is the first key by which a record is found.
func (r *results) liveKey(rec *scanned) (resultKey, bool) {
	for k := range rec.keys {
		if at, ok := r.find(k); ok && at == rec.location() {
			return k, true
		}
	}
	return resultKey{}, false
}

var metaBuffers = sync.Pool{New: func() any { return new([]byte) }}

// sample finds the sample that has k.
func (r *results) sample(k resultKey) (*Sample, error) {
	for {
		at, ok := r.find(k)
		if !ok {
			return nil, ErrNotFound
		}
		s, err := r.read(k, at)
		if err != nil {
			if now, ok := r.find(k); ok && now != at {
				continue // its pack was rewritten meanwhile
			}
		}
		return s, err
	}
}

// read reads the record at a place, and returns the sample that has k.
func (r *results) read(k resultKey, at location) (*Sample, error) {
	p, err := r.pool.get(at.pack())
	if err != nil {
		return nil, err
	}
	f, err := p.acquire()
	if err != nil {
		return nil, err
	}
	defer p.release()
	buf := metaBuffers.Get().(*[]byte)
	defer metaBuffers.Put(buf)
	rec, err := readRecord(f, byAge(p.name()), at.offset(), 2*maxLen, buf)
	if err != nil {
		return nil, err
	}
	for i := range rec.samples {
		s := &rec.samples[i]
		if s.Path == k.path && s.Source == k.src && s.Representation(k.key) != nil {
			return s, nil
		}
	}
	return nil, ErrNotFound // another one has the same hash
}

// eachRecord calls f for each record of a sealed pack, as the footer describes it. Where
// the footer is damaged, whole is false, and f gets the records as their own headers
// describe them, from the first on, up to one that is broken; it may get some twice. The
// data is not read.
func (r *results) eachRecord(n packName, f func(scanned)) (seal packSeal, whole bool, err error) {
	file, err := r.fs.Open(filepath.Join(r.dir, n.String()))
	if err != nil {
		return seal, false, err
	}
	defer file.Close()
	scattered(file)
	seal, err = eachSealed(file, byAge(n), func(rec scanned) error { f(rec); return nil })
	if !errors.Is(err, ErrCorrupt) {
		return seal, err == nil, err
	}
	r.warn(uint32(n.age), err)
	for rec, err := range scan(file, byAge(n), seal.Size, false) {
		if err != nil {
			break
		}
		f(rec)
	}
	return seal, false, nil
}

// eachUnfinished calls f for each record of a pack that is being written.
func (r *results) eachUnfinished(n packName, f func(scanned)) error {
	file, err := r.fs.Open(filepath.Join(r.dir, n.String()))
	if errors.Is(err, fs.ErrNotExist) { // it was sealed, or removed
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	for rec, err := range scan(file, byAge(n), size, false) {
		if err != nil {
			break // what is being written
		}
		f(rec)
	}
	return nil
}

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
	is := indexed{at, version, uint32(min((bytes+unit-1)/unit, math.MaxUint32))}
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
