package store

import (
	"errors"
	"hash/maphash"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/pipefs/pipefs/store/vfs"
)

// catalogue finds records by what they hold of which version of which file. It
// takes some 30 bytes of memory a representation: only a hash is kept, and the
// record itself tells whether it is the one. It is safe for concurrent use.
type catalogue struct {
	fs   vfs.FS
	what string // "overlay" or "fraction", for messages
	dir  string // of the packs
	log  *slog.Logger
	pool *pool
	seed maphash.Seed

	mu sync.RWMutex
	at map[uint64]location
}

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

// overlayKey is what a representation is looked up by.
type overlayKey struct {
	path string
	src  Identity
	key  string
}

func newCatalogue(fsys vfs.FS, what, dir string, log *slog.Logger, maxOpen int) *catalogue {
	return &catalogue{
		fs: fsys, what: what, dir: dir, log: log, pool: newPool(fsys, dir, maxOpen),
		seed: maphash.MakeSeed(), at: map[uint64]location{},
	}
}

// hash is replaced by tests that want collisions.
func (c *catalogue) hash(k overlayKey) uint64 { return overlayHash(c.seed, k) }

var overlayHash = func(seed maphash.Seed, k overlayKey) uint64 { return maphash.Comparable(seed, k) }

// know takes in all that a record holds; what comes later replaces what was
// there.
func (c *catalogue) know(pack uint32, off int64, samples []Sample) {
	for i := range samples {
		s := &samples[i]
		for j := range s.Representations {
			c.place(overlayKey{s.Path, s.Source, s.Representations[j].Key}, pack, off)
		}
	}
}

func (c *catalogue) place(k overlayKey, pack uint32, off int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[c.hash(k)] = locate(pack, off)
}

func (c *catalogue) forget(k overlayKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.at, c.hash(k))
}

func (c *catalogue) find(k overlayKey) (location, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, ok := c.at[c.hash(k)]
	return at, ok
}

func (c *catalogue) count() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int64(len(c.at))
}

var metaBuffers = sync.Pool{New: func() any { return new([]byte) }}

// get finds k; ErrNotFound where it is not there.
func (c *catalogue) get(k overlayKey) (Representation, error) {
	s, err := c.sample(k)
	if err != nil {
		return Representation{}, err
	}
	return *s.Representation(k.key), nil
}

// sample reads the record that holds k, and returns the sample that has it.
func (c *catalogue) sample(k overlayKey) (*Sample, error) {
	at, ok := c.find(k)
	if !ok {
		return nil, ErrNotFound
	}
	n, off := at.pack(), at.offset()
	p, err := c.pool.get(n)
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
	rec, err := readRecord(f, n, off, 2*maxLen, buf)
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

// loadSealed takes in a sealed pack. Nothing in it cannot be made again: where
// it is damaged, which whole tells, what still holds is used.
func (c *catalogue) loadSealed(n uint32) (seal packSeal, whole bool, err error) {
	seal, damage, err := sealedRecords(c.fs, c.dir, n, func(off, _ int64, samples []Sample) { c.know(n, off, samples) })
	if damage != nil {
		c.log.Warn("a pack of the "+c.what+" is damaged; what holds of it is used", c.what, c.dir, "error", damage)
	}
	return seal, damage == nil, err
}

// sealedRecords calls each with the place and the entries of every record of a
// sealed pack, as its footer has them. Where that does not hold, damage says why,
// and each gets to know what the records say themselves, from the first on, up to
// one that is broken; some it may get twice. The data is not read.
func sealedRecords(fsys vfs.FS, dir string, n uint32, each func(off, end int64, samples []Sample)) (seal packSeal, damage, err error) {
	f, err := fsys.Open(filepath.Join(dir, packName(n)))
	if err != nil {
		return seal, nil, err
	}
	defer f.Close()
	scattered(f)
	seal, records, err := readFooter(f, n)
	for _, r := range records {
		var samples []Sample
		if samples, err = decodeRecord(r.meta, r.at); err != nil {
			err = corruptAt(n, r.metaOff, "", err)
			break
		}
		each(r.off, r.at.base+r.at.size, samples)
	}
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return seal, nil, err
	}
	for rec, err := range scan(f, n, seal.Size, false) {
		if err != nil {
			break
		}
		each(rec.off, rec.end, rec.samples)
	}
	return seal, err, nil
}
