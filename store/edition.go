package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	sorted "github.com/pipefs/pipefs/internal/index"
)

// edition is what an open store holds by one generation. Its parts of packs are numbered by the
// pool of the store, so that what one edition found can be read as long as the pool knows the
// pack, whatever the store holds by then.
type edition struct {
	*Store
	gen     *generation
	numbers []uint32 // of its packs in the pool
	recent  *recent

	index   atomic.Pointer[index]
	mu      sync.Mutex // held while the index is made again
	repairs int
}

// errLetGo says that an edition is not the current one any more, nor the one before.
var errLetGo = errors.New("the generation is not open any more")

// makeIndex makes the index of an edition.
func (v *edition) makeIndex(ctx context.Context) (*index, error) {
	x, err := v.indexes.make(ctx, v.builder(false))
	if err == nil || errors.Is(err, ErrCorrupt) || ctx.Err() != nil {
		return x, err
	}
	v.o.Logger.Debug("the index cannot be kept", "store", v.dir, "directory", v.indexes.dir, "error", err)
	return v.privateIndex(ctx)
}

// privateIndex makes an index for this process alone.
func (v *edition) privateIndex(ctx context.Context) (*index, error) {
	return v.indexes.private(ctx, v.builder(false))
}

func (v *edition) builder(count bool) *builder {
	return &builder{fs: v.o.FS, store: v.dir, indexes: v.indexes, gen: v.gen, count: count}
}

// use makes an index that of the edition.
func (v *edition) use(x *index) {
	x.numbers = v.numbers
	v.index.Store(x)
}

// maxRepairs bounds how often an open store makes its index again.
const maxRepairs = 3

// repairIndex replaces a damaged index.
func (v *edition) repairIndex(x *index, cause error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.index.Load() != x {
		return nil // another goroutine did
	}
	if v.pool.closed.Load() || v.repairs == maxRepairs {
		return cause
	}
	v.o.Logger.Warn("the index is damaged and is made again", "store", v.dir, "error", cause)
	again, err := v.makeIndex(context.Background())
	if err != nil {
		v.o.Logger.Error("the index is damaged and cannot be made again; mount the store again", "store", v.dir, "error", err)
		return errors.Join(cause, err)
	}
	v.repairs++
	v.use(again)
	go x.Close() // when nobody reads it any more
	return nil
}

// ask asks the index; where that is damaged it is made again.
func ask[T any](v *edition, f func(*index, string) (T, error), path string) (found T, err error) {
	for {
		x := v.index.Load()
		if found, err = f(x, path); err == nil {
			return found, nil
		}
		switch {
		case v.pool.closed.Load():
			return found, ErrClosed
		case errors.Is(err, sorted.ErrClosed) && v.index.Load() == x:
			return found, errLetGo
		}
		if err = v.repairIndex(x, err); err != nil {
			return found, err
		}
	}
}

// lookup returns the entry of a path, nil where there is none.
func (v *edition) lookup(path string) (*Sample, error) {
	if e := v.recent.get(path); e != nil {
		return e, nil
	}
	e, err := ask(v, func(x *index, p string) (*Sample, error) { return x.lookup(p, v.recent) }, path)
	if e != nil && err == nil {
		v.recent.put(e)
	}
	return e, err
}

// checkPacks compares the packs that are there with those that the generation names.
func (v *edition) checkPacks() error {
	for i := range v.gen.Packs {
		want := &v.gen.Packs[i]
		if v.pool.has(want) {
			continue
		}
		size, err := v.o.FS.Size(filepath.Join(v.dir, want.File()))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing: put it back, or pack again to make what it held: %w", v.dir+"/"+want.File(),
				corruptAt(want.name(), 0, "", errors.New("missing")))
		case err != nil:
			return err
		case size != want.Size:
			return fmt.Errorf("%s is not what it was: put it back, or move it away and pack again: %w", v.dir+"/"+want.File(),
				corruptAt(want.name(), min(size, want.Size), "", fmt.Errorf("%d bytes, the index knows %d", size, want.Size)))
		}
	}
	return nil
}

// take makes this edition the one that the store shows.
func (v *edition) take(x *index) {
	v.pool.order(v.gen.Stats.RecordImages > 1)
	v.numbers = make([]uint32, len(v.gen.Packs))
	for i := range v.numbers {
		v.numbers[i] = v.pool.number(&v.gen.Packs[i])
	}
	v.use(x)
	v.now.Store(v)
}

// close closes the index. Whoever asks it from then on is told that it is gone.
func (v *edition) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.index.Load().Close()
}

// recent remembers entries that were looked up lately: the kernel asks for the
// attributes of a file, its size and its bytes one right after the other, and
// finding and decoding an entry costs as much as reading a small file. A store
// that is open never changes, so nothing is ever forgotten but for lack of memory.
// It remembers, too, which keys come behind those that were looked up.
type recent struct {
	seed     maphash.Seed
	slots    [512]atomic.Pointer[Sample]
	expected [16]atomic.Uint64 // hashes of keys
}

func newRecent() *recent { return &recent{seed: maphash.MakeSeed()} }

func (r *recent) slot(path string) *atomic.Pointer[Sample] {
	return &r.slots[maphash.String(r.seed, path)%uint64(len(r.slots))]
}

// get returns nil where it does not remember.
func (r *recent) get(path string) *Sample {
	if s := r.slot(path).Load(); s != nil && s.Path == path {
		return s
	}
	return nil
}

func (r *recent) put(s *Sample) { r.slot(s.Path).Store(s) }

// expect takes note of the key behind one that was looked up.
func (r *recent) expect(key []byte) {
	h := maphash.Bytes(r.seed, key)
	r.expected[h%uint64(len(r.expected))].Store(h)
}

// expects reports whether a reader goes through the index in order.
func (r *recent) expects(key []byte) bool {
	h := maphash.Bytes(r.seed, key)
	return r.expected[h%uint64(len(r.expected))].Load() == h
}
