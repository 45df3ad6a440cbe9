package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// Options says how a store is opened. The zero value is a good choice.
type Options struct {
	// FS does the I/O on packs; nil means vfs.OS.
	FS vfs.FS
	// Logger hears what is not an error: an index that had to be rebuilt. nil
	// means slog.Default.
	Logger *slog.Logger
	// TempDir is where an index is rebuilt that cannot be put into the store;
	// "" means os.TempDir.
	TempDir string
	// VerifyOnce checks each chunk the first time that a Reader reads it, and
	// not again. The default is to check on every read.
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
	pool   *pool
	index  *index
	recent *recent
	temp   string // a rebuilt index to remove; may be ""

	fractions []*Fraction
}

// Open opens a store for reading. Where the index is missing or broken it is
// rebuilt from the packs: in the store if that can be written and nobody else
// writes, in a temporary directory otherwise. Errors are of the classes
// ErrNotStore, ErrVersion, ErrCorrupt, or of the operating system. A pack that
// is missing or not the one that the index was made from is an error.
func Open(dir string, o Options) (*Store, error) {
	o.setDefaults()
	format, err := readFormat(o.FS, dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, o: o, recent: newRecent()}
	s.index, err = openCurrent(o.FS, dir, o.Logger)
	switch {
	case errors.Is(err, ErrVersion):
		return nil, err
	case err != nil:
		if err := s.rebuild(format, err); err != nil {
			return nil, err
		}
	}
	if err := s.openPacks(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.fractions = openFractions(&s.o, dir)
	return s, nil
}

// rebuild makes the index again.
func (s *Store) rebuild(format formatFile, cause error) error {
	switch {
	case errors.Is(cause, fs.ErrNotExist):
		s.o.Logger.Info("the index is missing and is made again", "store", s.dir)
	case errors.Is(cause, errOlderIndex):
		s.o.Logger.Info("the index is of an older version and is made again", "store", s.dir)
	default:
		s.o.Logger.Warn("the index is broken and is made again", "store", s.dir, "error", cause)
	}
	if lock, err := s.o.FS.Lock(filepath.Join(s.dir, lockName)); err == nil {
		// Somebody else may have been faster.
		x, err := openCurrent(s.o.FS, s.dir, s.o.Logger)
		if err != nil {
			if err = publishIndex(context.Background(), s.o.FS, s.dir, format, s.o.Logger); err == nil {
				x, err = openCurrent(s.o.FS, s.dir, s.o.Logger)
			}
		}
		err = errors.Join(err, lock.Close())
		if err == nil {
			s.index = x
			return nil
		}
		if errors.Is(err, ErrCorrupt) {
			return fmt.Errorf("%s: no index, and none can be made: %w", s.dir, err)
		}
		s.o.Logger.Debug("the index cannot be put into the store", "store", s.dir, "error", err)
	}
	temp, err := os.MkdirTemp(s.o.TempDir, "pipefs-index-")
	if err != nil {
		return fmt.Errorf("no index, and no room to make one: %w", err)
	}
	s.temp = temp
	// This directory belongs to this process: vfs.OS, whatever the store is on.
	seal, err := buildIndex(context.Background(), s.o.FS, s.dir, vfs.OS, filepath.Join(temp, indexName(1)), format, s.o.Logger)
	if err == nil {
		s.index, err = openIndex(vfs.OS, temp, currentFile{Index: indexName(1), Seal: hexSum(seal)}, s.o.Logger)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: no index, and none can be made: %w", s.dir, err), os.RemoveAll(temp))
	}
	return nil
}

// openPacks compares the packs that are there with those that the index knows.
func (s *Store) openPacks() error {
	packs := filepath.Join(s.dir, packsName)
	s.pool = newPool(s.o.FS, packs, s.o.MaxOpenPacks)
	s.pool.ordered = s.index.seal.Stats.RecordImages > 1
	for i := range s.index.seal.Packs {
		want := &s.index.seal.Packs[i]
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
	e, err := s.index.get(path)
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
	children, err := s.index.list(dir)
	if err != nil {
		return nil, err
	}
	if st := &s.index.seal.Stats; st.Order == OrderShuffle || st.RecordImages > 1 {
		slices.SortFunc(children, bySeq)
	} // Badger lists by name
	return children, nil
}

// Reader opens a representation at a level; 0 is the whole.
func (s *Store) Reader(rep Representation, level int) (*Reader, error) {
	return s.pool.reader(rep, level, s.o.VerifyOnce)
}

// Stats describes what the store holds.
func (s *Store) Stats() Stats { return s.index.seal.Stats.clone() }

// Close releases the index and the packs. Readers of the store fail from then
// on. No other method may be running.
func (s *Store) Close() error {
	if s.pool != nil {
		s.pool.close()
	}
	for _, f := range s.fractions {
		f.pool.close()
	}
	s.index.close()
	if s.temp != "" {
		return os.RemoveAll(s.temp)
	}
	return nil
}
