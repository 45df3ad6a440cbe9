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
	"time"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store/vfs"
)

// Options says how a store is opened. The zero value is a good choice.
type Options struct {
	// FS does the I/O on packs; nil means vfs.OS.
	FS vfs.FS
	// Logger gets what is not an error: an index that had to be rebuilt. nil
	// means slog.Default.
	Logger *slog.Logger
	// IndexDir is where the index is kept, a directory for this store alone, made if need
	// be. Those who open the store on this machine share it. "" means in the store. The
	// index is merged from the store's segments when a generation is opened first.
	IndexDir string
	// Generation is the one to open, as [Store.Shown] told it; the zero value is the current
	// one. The error is of class ErrNotExist where it is there no more.
	Generation Generation
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

	indexes indexDir
	// now is what the store holds, and before what it held before the last Refresh, nil where
	// there was none.
	now, before atomic.Pointer[edition]
	refresh     sync.Mutex // held while the next edition is opened
	buildAgain  time.Time  // before which Refresh makes no index

	fractions []*Fraction
}

// Open opens a store for reading. Where the index of the current generation is not there, or
// is broken, it is merged from the segments, or from the packs where these are broken, and
// kept: see [Options.IndexDir]. Where it cannot be kept it is in a temporary file. The same
// happens when damage is found later.
// Errors are of the classes ErrNotStore, ErrVersion, ErrCorrupt, or of the
// operating system. A pack that is missing or not the one that the generation
// names is an error.
func Open(dir string, o Options) (*Store, error) {
	o.setDefaults()
	format, err := readFormat(o.FS, dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, o: o, format: format, indexes: indexDirOf(dir, o.IndexDir)}
	s.pool = newPool(o.FS, dir, packName.file, o.MaxOpenPacks)
	v := &edition{Store: s, recent: newRecent()}
	var x *index
	if o.Generation == (Generation{}) {
		x, err = v.openCurrent()
	} else {
		x, err = v.openNamed(o.Generation)
	}
	if err != nil {
		return nil, err
	}
	if err := v.checkPacks(); err != nil {
		_ = x.Close()
		return nil, err
	}
	v.take(x)
	s.fractions = openFractions(&s.o, dir)
	return s, nil
}

// openNamed opens a generation that need not be the current one.
func (v *edition) openNamed(g Generation) (x *index, err error) {
	if v.gen, err = openGeneration(v.o.FS, v.dir, currentFile{Generation: g.Name, Sum: g.Sum}); err != nil {
		return nil, fmt.Errorf("generation %s of %s: %w", g.Name, v.dir, err)
	}
	if x, err = v.indexes.open(v.gen); err != nil {
		// What others made for the current generation stays.
		x, err = v.privateIndex(context.Background())
	}
	return x, err
}

// openCurrent opens the current generation and its index. What is missing or broken is made.
func (v *edition) openCurrent() (x *index, err error) {
	for tries := 0; ; tries++ {
		g, err := readGeneration(v.o.FS, v.dir)
		switch {
		case errors.Is(err, ErrVersion):
			return nil, fmt.Errorf("%s: %w", v.dir, err)
		case errors.Is(err, fs.ErrNotExist):
			v.o.Logger.Info("the index is missing and is made again", "store", v.dir)
		case err != nil:
			v.o.Logger.Warn("the index is broken and is made again", "store", v.dir, "error", err)
		}
		if err != nil {
			if x, err = v.recover(); err != nil {
				return nil, fmt.Errorf("%s: no index, and none can be made: %w", v.dir, err)
			}
			return x, nil
		}
		replaced := v.gen != nil && !g.samePacks(v.gen)
		v.gen = g
		if x, err = v.indexes.open(g); err == nil {
			return x, nil
		}
		// A writer removes the index of an old generation.
		if tries == 0 || replaced && tries < 10 {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			v.o.Logger.Info("the index is made from the segments of the store", "store", v.dir, "packs", len(g.Packs))
		} else {
			v.o.Logger.Warn("the index is broken and is made again", "store", v.dir, "error", err)
		}
		if x, err = v.makeIndex(context.Background()); err != nil {
			return nil, fmt.Errorf("%s: no index, and none can be made: %w", v.dir, err)
		}
		return x, nil
	}
}

// recover makes a generation of all packs that there are, and opens its index: in the store
// if this process may write and no other does, else for this process alone.
func (v *edition) recover() (*index, error) {
	fsys, ctx := v.o.FS, context.Background()
	if lock, err := fsys.Lock(filepath.Join(v.dir, lockName)); err == nil {
		// Another process may have made it meanwhile.
		if v.gen, err = readGeneration(fsys, v.dir); err != nil && !errors.Is(err, ErrVersion) {
			if err = commit(ctx, fsys, v.dir, v.indexes, v.format, v.o.Logger); err == nil {
				v.gen, err = readGeneration(fsys, v.dir)
			}
		}
		if err = errors.Join(err, lock.Close()); err == nil {
			return v.makeIndex(context.Background())
		}
		if errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		v.o.Logger.Debug("the index cannot be put into the store", "store", v.dir, "error", err)
	}
	var err error
	if v.gen, err = describeAll(ctx, fsys, v.dir, v.format, nil, false); err != nil {
		return nil, err
	}
	return v.indexes.private(ctx, v.builder(true))
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
	e, err := s.find(path)
	switch {
	case err != nil:
		return Sample{}, err
	case e != nil:
		return *e, nil
	case path == "":
		return Sample{Kind: Dir, Mode: 0o755}, nil
	}
	return Sample{}, fmt.Errorf("%q: %w", path, ErrNotFound)
}

// find returns the entry of a path in the edition that is shown; nil where there is none.
func (s *Store) find(path string) (*Sample, error) {
	for {
		// Only if there were two more since is an edition gone.
		if e, err := s.now.Load().lookup(path); !errors.Is(err, errLetGo) {
			return e, err
		}
	}
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
	v := s.now.Load()
	children, err := ask(v, (*index).list, dir)
	if errors.Is(err, errLetGo) {
		return s.List(dir)
	}
	if err != nil {
		return nil, err
	}
	if st := &v.gen.Stats; st.Order == OrderShuffle || st.RecordImages > 1 {
		slices.SortFunc(children, bySeq)
	} // the index lists by name
	return children, nil
}

// Each calls f with every entry, in the order of the index: by directory, then by name. f must not keep
// it. It ends at f's first error.
func (s *Store) Each(f func(*Sample) error) error {
	if s.pool.closed.Load() {
		return ErrClosed
	}
	return s.now.Load().index.Load().each(f)
}

// NewestAge is the highest age of the packs of the generation that is shown, and of those that they replaced.
func (s *Store) NewestAge() uint64 { return s.now.Load().gen.newestAge() }

// Reader opens a representation at a level; 0 is the whole.
func (s *Store) Reader(rep Representation, level int) (*Reader, error) {
	return s.pool.reader(rep, level)
}

// Stats describes what the store holds.
func (s *Store) Stats() Stats { return s.now.Load().gen.Stats.clone() }

// Close releases the index and the packs. Readers of the store fail from then
// on. No other method may be running.
func (s *Store) Close() error {
	s.pool.close()
	for _, f := range s.fractions {
		f.pool.close()
	}
	for _, v := range []*edition{s.before.Load(), s.now.Load()} {
		if v != nil {
			v.close()
		}
	}
	return nil
}

// Is reports whether dir is a store, be it whole, damaged or of another version.
// The error is one of reading.
func Is(dir string) (bool, error) { return IsIn(vfs.OS, dir) }

// IsIn is [Is] for a directory of another file system than that of the operating system.
func IsIn(fsys vfs.FS, dir string) (bool, error) {
	_, err := readFormat(fsys, dir)
	switch {
	case err == nil, errors.Is(err, ErrCorrupt), errors.Is(err, ErrVersion):
		return true, nil
	case errors.Is(err, ErrNotStore), errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, err
}

const autoName = "AUTO"

// Auto is what was measured to serve a store's dataset best.
type Auto struct {
	// View is the canonical spec of a view.
	View string `json:"view"`
	// Share of the view's files that are materialized, 0 to 1: the mix.
	Share float64 `json:"share"`
	// Host and Time say where and when it was measured.
	Host string    `json:"host"`
	Time time.Time `json:"time"`
}

// Auto is what WriteAuto left in the store; ErrNotFound where it was never called.
func (s *Store) Auto() (Auto, error) {
	var a Auto
	_, err := readText(s.o.FS, filepath.Join(s.dir, autoName), &a)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: nothing was measured: %w", s.dir, ErrNotFound)
	}
	return a, err
}

// WriteAuto notes in a store what serves it best.
func WriteAuto(dir string, a Auto) error {
	text, err := sorted.Seal(a)
	if err != nil {
		return err
	}
	return replaceFile(vfs.OS, filepath.Join(dir, autoName), text)
}
