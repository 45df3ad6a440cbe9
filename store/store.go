package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/store/vfs"
)

// Options says how a store is opened. The zero value is a good choice.
type Options struct {
	// FS does the I/O on packs; nil means vfs.OS.
	FS vfs.FS
	// Logger gets what is not an error: an index that had to be rebuilt. nil
	// means slog.Default.
	Logger *slog.Logger
	// TempDir is where an index is rebuilt that cannot be put into the store;
	// "" means os.TempDir.
	TempDir string
	// VerifyOnce checks each chunk only the first time that a Reader reads it.
	// The default is to check on every read.
	VerifyOnce bool
	// MaxOpenPacks bounds the file descriptors kept open; 0 means 256.
	MaxOpenPacks int
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Store is a store opened for reading. It is safe for concurrent use.
type Store struct {
	dir    string
	o      Options
	format formatFile
	pool   *pool
	seal   sealFile // of the packs that were there when it was opened
	recent *recent

	index  atomic.Pointer[index]
	mu     sync.Mutex // held while the index is made again
	broken []*index   // may still be in use

	fractions []*Fraction
}

// Open opens a store for reading. Where the index is missing or broken it is
// rebuilt from the packs: in the store if this process may write and no other process
// does, in a temporary file otherwise. The same happens when damage is found later.
// Errors are of the classes ErrNotStore, ErrVersion, ErrCorrupt, or of the
// operating system. A pack that is missing or not the one that the index was
// made from is an error.
func Open(dir string, o Options) (*Store, error) {
	o.setDefaults()
	format, err := readFormat(o.FS, dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, o: o, format: format, recent: newRecent()}
	x, err := openCurrent(o.FS, dir)
	switch {
	case errors.Is(err, ErrVersion):
		return nil, fmt.Errorf("%s: %w", dir, err)
	case errors.Is(err, fs.ErrNotExist):
		o.Logger.Info("the index is missing and is made again", "store", dir)
	case err != nil:
		o.Logger.Warn("the index is broken and is made again", "store", dir, "error", err)
	}
	if err != nil {
		if x, err = s.makeIndex(nil); err != nil {
			return nil, fmt.Errorf("%s: no index, and none can be made: %w", dir, err)
		}
	}
	s.seal = x.seal
	s.index.Store(x)
	if err := s.openPacks(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.fractions = openFractions(&s.o, dir)
	return s, nil
}

// makeIndex makes the index again: that of the packs that a store was opened with,
// or, where that is nil, of all that there are.
func (s *Store) makeIndex(of *sealFile) (*index, error) {
	fsys := s.o.FS
	if lock, err := fsys.Lock(filepath.Join(s.dir, lockName)); err == nil {
		// Another process may have made it meanwhile.
		x, err := openWhole(fsys, s.dir)
		if err != nil && !errors.Is(err, ErrVersion) {
			if err = publishIndex(context.Background(), fsys, s.dir, s.format, s.o.Logger); err == nil {
				x, err = openCurrent(fsys, s.dir)
			}
		}
		if err = errors.Join(err, lock.Close()); err == nil {
			if of == nil || of.samePacks(&x.seal) {
				return x, nil
			}
			x.close(s.o.Logger)
		}
		if errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		s.o.Logger.Debug("the index cannot be put into the store", "store", s.dir, "error", err)
	}
	var numbers []uint32
	if of == nil {
		var err error
		if numbers, _, err = listPacks(fsys, filepath.Join(s.dir, packsName)); err != nil {
			return nil, err
		}
	} else {
		for _, p := range of.Packs {
			numbers = append(numbers, p.Number)
		}
	}
	x, err := privateIndex(context.Background(), fsys, s.dir, s.o.TempDir, numbers, s.format)
	if err == nil && of != nil && !of.samePacks(&x.seal) {
		x.close(s.o.Logger)
		err = errors.New("packs were replaced")
	}
	return x, err
}

// openWhole opens the current index if every byte of it holds.
func openWhole(fsys vfs.FS, dir string) (*index, error) {
	x, err := openCurrent(fsys, dir)
	if err == nil {
		if err = x.each(func(*Sample) error { return nil }); err != nil {
			err = errors.Join(err, x.f.Close())
		}
	}
	return x, err
}

// maxRepairs bounds how often an open store makes its index again.
const maxRepairs = 3

// repairIndex replaces a damaged index, and returns the new one.
func (s *Store) repairIndex(x *index, cause error) (*index, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.index.Load(); now != x {
		return now, nil // another goroutine did
	}
	if s.pool.closed.Load() || len(s.broken) == maxRepairs {
		return nil, cause
	}
	s.o.Logger.Warn("the index is damaged and is made again", "store", s.dir, "error", cause)
	again, err := s.makeIndex(&s.seal)
	if err != nil {
		s.o.Logger.Error("the index is damaged and cannot be made again; mount the store again", "store", s.dir, "error", err)
		return nil, errors.Join(cause, err)
	}
	s.broken = append(s.broken, x)
	s.index.Store(again)
	return again, nil
}

// ask asks the index; where that is damaged it is made again.
func ask[T any](s *Store, f func(*index, string) (T, error), path string) (T, error) {
	x := s.index.Load()
	v, err := f(x, path)
	if err == nil {
		return v, nil
	}
	if s.pool.closed.Load() {
		return v, ErrClosed
	}
	if x, err = s.repairIndex(x, err); err != nil {
		return v, err
	}
	return f(x, path)
}

// openPacks compares the packs that are there with those that the index knows.
func (s *Store) openPacks() error {
	packs := filepath.Join(s.dir, packsName)
	s.pool = newPool(s.o.FS, packs, s.o.MaxOpenPacks)
	s.pool.ordered = s.seal.Stats.RecordImages > 1
	for i := range s.seal.Packs {
		want := &s.seal.Packs[i]
		name := filepath.Join(packs, packName(want.Number))
		size, err := s.o.FS.Size(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing: put it back, or pack again to make what it held: %w", name,
				corruptAt(want.Number, 0, "", errors.New("missing")))
		case err != nil:
			return err
		case size != want.Size:
			return fmt.Errorf("%s is not what it was: put it back, or move it away and pack again: %w", name,
				corruptAt(want.Number, min(size, want.Size), "", fmt.Errorf("%d bytes, the index knows %d", size, want.Size)))
		}
		s.pool.add(want.Number, want)
	}
	return nil
}

// Lookup returns the entry of a path; ErrNotFound where there is none. "" is
// the dataset itself. What it returns shares its slices with other callers.
func (s *Store) Lookup(path string) (Sample, error) {
	if s.pool.closed.Load() {
		return Sample{}, ErrClosed
	}
	if len(path) > maxPath || strings.IndexByte(path, 0) >= 0 {
		return Sample{}, fmt.Errorf("%q: %w", path, ErrNotFound)
	}
	if e := s.recent.get(path); e != nil {
		return *e, nil
	}
	e, err := ask(s, (*index).get, path)
	switch {
	case err != nil:
		return Sample{}, err
	case e != nil:
		s.recent.put(e)
		return *e, nil
	case path == "":
		return Sample{Kind: Dir, Mode: 0o755}, nil
	}
	return Sample{}, fmt.Errorf("%q: %w", path, ErrNotFound)
}

// List returns what a directory holds: in packed order where the store was
// packed shuffled or with several samples a record, else by name. "" is the
// dataset itself. The classes of error are ErrNotFound, ErrNotDir, ErrCorrupt.
func (s *Store) List(dir string) ([]Child, error) {
	d, err := s.Lookup(dir)
	if err != nil {
		return nil, err
	}
	if d.Kind != Dir {
		return nil, fmt.Errorf("%q: %w", dir, ErrNotDir)
	}
	children, err := ask(s, (*index).list, dir)
	if err != nil {
		return nil, err
	}
	if st := &s.seal.Stats; st.Order == OrderShuffle || st.RecordImages > 1 {
		slices.SortFunc(children, bySeq)
	} // the index lists by name
	return children, nil
}

// Reader opens a representation at a level; 0 is the whole.
func (s *Store) Reader(rep Representation, level int) (*Reader, error) {
	return s.pool.reader(rep, level, s.o.VerifyOnce)
}

// Stats describes what the store holds.
func (s *Store) Stats() Stats { return s.seal.Stats.clone() }

// Close releases the index and the packs. Readers of the store fail from then
// on. No other method may be running.
func (s *Store) Close() error {
	if s.pool != nil {
		s.pool.close()
	}
	for _, f := range s.fractions {
		f.pool.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range append(s.broken, s.index.Load()) {
		x.close(s.o.Logger)
	}
	return nil
}
