package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/store/vfs"
)

// pool opens packs when they are first read and keeps a bounded number open.
type pool struct {
	fs  vfs.FS
	dir string
	at  func(packName) string // where a pack lies, below dir
	max int

	mu    sync.Mutex
	packs map[uint32]*pack
	names map[packName]*pack // of those that [pool.number] was asked for
	next  uint32             // number that it gives
	// ordered: records of packs that are added hold many samples, and are read one after the other.
	ordered bool
	open    []*pack
	hand    int // of the clock that finds a pack to close
	closed  atomic.Bool
	read    atomic.Bool // there are readers
}

// pack is a pack that may be open. Readers hold on to it for as long as they
// live, and to its descriptor for the time of a read only.
type pack struct {
	pool *pool
	// ordered: see pool
	ordered bool
	ref     packRef   // under the pool's lock: a pack that grows has no id yet
	want    *packSeal // what the index says; nil for a pack that still grows

	// refs counts reads in progress; packShut means that f is not open. The
	// common case, an open pack, costs two atomic operations and no lock.
	refs atomic.Int64
	used atomic.Bool
	f    vfs.File
	gone atomic.Bool // it is of no edition that is open

	streams streams // where records hold many samples
}

const packShut = -1

func (k *pack) name() packName {
	k.pool.mu.Lock()
	defer k.pool.mu.Unlock()
	return k.ref.packName
}

const defaultOpenPacks = 256

func newPool(fs vfs.FS, dir string, at func(packName) string, limit int) *pool {
	return &pool{fs: fs, dir: dir, at: at, max: positive(limit, defaultOpenPacks), packs: map[uint32]*pack{}}
}

// add makes a pack known, unless it is. It is opened when it is needed.
func (p *pool) add(ref packRef, want *packSeal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.packs[ref.number] == nil {
		k := &pack{pool: p, ordered: p.ordered, ref: ref, want: want}
		k.refs.Store(packShut)
		p.packs[ref.number] = k
	}
}

// order says whether packs that are added from now on are ordered.
func (p *pool) order(ordered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ordered = ordered
}

// number is that of a sealed pack, which becomes known unless it is.
func (p *pool) number(want *SealedPack) uint32 {
	p.mu.Lock()
	if k := p.names[want.name()]; k != nil && k.want.matches(want.packSeal) == nil {
		p.mu.Unlock()
		return k.ref.number
	}
	n := p.next
	p.next++
	p.mu.Unlock()
	p.add(packRef{want.name(), n}, &want.packSeal)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil {
		p.names = map[packName]*pack{}
	}
	p.names[want.name()] = p.packs[n]
	return n
}

// has reports whether a sealed pack is known.
func (p *pool) has(want *SealedPack) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.names[want.name()]
	return k != nil && k.want.matches(want.packSeal) == nil
}

// rest closes the packs that are not among some, unless they are being read. With forget no new
// reader of them is opened from then on.
func (p *pool) rest(among map[uint32]bool, forget bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, k := range p.packs {
		if !among[n] {
			if forget {
				delete(p.packs, n)
				delete(p.names, k.ref.packName)
				k.gone.Store(true)
			}
			k.shut()
		}
	}
	p.open = slices.DeleteFunc(p.open, func(k *pack) bool { return k.refs.Load() == packShut })
}

// named says what a pack that grew is about to be called.
func (p *pool) named(ref packRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.packs[ref.number]; k != nil {
		k.ref = ref
	}
}

func (p *pool) get(number uint32) (*pack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.packs[number]
	if k == nil {
		return nil, fmt.Errorf("pack %d: %w", number, ErrNotFound)
	}
	return k, nil
}

// retire takes out a pack that is about to be removed. Readers that have it go on reading
// it: it stays open until the last of them is gone, and with it the file.
func (p *pool) retire(number uint32) {
	k, err := p.get(number)
	if err != nil {
		return
	}
	if p.read.Load() {
		_, _ = k.acquire() // never released; an error means that there is nothing to read
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.packs, number)
	if i := slices.Index(p.open, k); i >= 0 && p.read.Load() {
		p.open = slices.Delete(p.open, i, i+1)
	}
}

// acquire returns the open file, which stays open until release.
func (k *pack) acquire() (vfs.File, error) {
	for {
		n := k.refs.Load()
		if n == packShut {
			if err := k.reopen(); err != nil {
				return nil, err
			}
			continue
		}
		if k.refs.CompareAndSwap(n, n+1) {
			if !k.used.Load() { // a store by every reader would bounce the line
				k.used.Store(true)
			}
			return k.f, nil
		}
	}
}

func (k *pack) release() {
	if k.refs.Add(-1) == 0 && (k.pool.closed.Load() || k.gone.Load()) {
		k.shut()
	}
}

// shut closes the file unless it is in use.
func (k *pack) shut() bool {
	if !k.refs.CompareAndSwap(0, packShut) {
		return false
	}
	_ = k.f.Close() // opened for reading, or synced before
	return true
}

// reopen opens the file, unless another goroutine has.
func (k *pack) reopen() error {
	p := k.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return ErrClosed
	}
	if k.refs.Load() != packShut {
		return nil
	}
	p.makeRoom()
	f, err := p.fs.Open(filepath.Join(p.dir, p.at(k.ref.packName)))
	if k.want == nil {
		// A pack that grew may be about to get its name, or just have got it.
		for _, name := range []packName{{age: k.ref.age}, k.ref.packName} {
			if errors.Is(err, fs.ErrNotExist) {
				f, err = p.fs.Open(filepath.Join(p.dir, p.at(name)))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", k.ref, err)
	}
	scattered(f)
	if k.want != nil {
		if err := k.want.same(f); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	k.f = f
	p.open = append(p.open, k)
	k.refs.Store(0)
	return nil
}

// scattered turns the system's read-ahead off, which may be megabytes, of samples that
// nobody asked for. It has to come before the first read: pages that were read ahead carry
// a mark, and a read that meets the mark reads ahead again, whatever the advice is by then.
func scattered(f vfs.File) {
	if a, ok := f.(vfs.Advised); ok {
		a.Scattered()
	}
}

// makeRoom closes packs that were not read lately until there is room for one
// more, or every pack is in use: then one more than the limit does no harm.
func (p *pool) makeRoom() {
	for tries := 2 * len(p.open); len(p.open) >= p.max && tries > 0; tries-- {
		p.hand %= len(p.open)
		k := p.open[p.hand]
		switch {
		case k.used.Swap(false):
			p.hand++
		case k.shut():
			last := len(p.open) - 1
			p.open[p.hand] = p.open[last]
			p.open = p.open[:last]
		default:
			p.hand++
		}
	}
}

// close closes every pack. Those in use are closed by their last reader.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed.Store(true)
	for _, k := range p.open {
		k.shut()
	}
	p.open = nil
}

// same checks that f is the pack that the generation names.
func (s *packSeal) same(f vfs.File) error {
	is, err := readSeal(f, s.name())
	if err != nil {
		return err
	}
	return s.matches(is)
}

func (s *packSeal) matches(is packSeal) error {
	switch {
	case is.Size != s.Size:
		return corruptAt(s.name(), min(is.Size, s.Size), "", fmt.Errorf("%d bytes where the index knows %d", is.Size, s.Size))
	case is.FooterSum != s.FooterSum:
		return corruptAt(s.name(), is.footerOff, "", errors.New("another pack than the one that the index was made from"))
	}
	return nil
}
