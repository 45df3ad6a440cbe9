package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// Wanted is a result that a fraction is to hold.
type Wanted struct {
	Path   string // of the sample
	Source Identity
	Key    string // of the result
	// Weight is about how many bytes of memory the result takes until it is
	// written.
	Weight int64
}

// Made is a result that is about to be stored.
type Made struct {
	Info  transcode.Info // of the sample
	Split transcode.Split
	// Release is called when Split is needed no more. It may be nil.
	Release func()
}

// Maker makes results. It is called concurrently.
type Maker interface {
	// Make makes a result. An error is reported, and the sample is left out.
	Make(ctx context.Context, w Wanted) (Made, error)
}

// FractionOptions says how to materialize. The zero value is a good choice.
type FractionOptions struct {
	// Share of the samples that the results are, from 0 to 1; it is kept for
	// [Fraction.Share].
	Share float64
	// Workers is how many results are made at once; 0 means one a core.
	Workers int
	// MemoryBytes bounds the results that wait to be written; 0 means 512 MiB.
	MemoryBytes int64
	// PackBytes is the size at which a pack is sealed; 0 means 256 MiB.
	PackBytes int64
	// Verify reads every result that is there, and makes again what is damaged.
	Verify bool
	// Begin hears what is to be done before anything is; an error ends it.
	Begin func(FractionPlan) error
	// Progress is called after every result, from one goroutine at a time. Those
	// that are verified come before Begin.
	Progress func(FractionProgress)
	// Warn hears of samples that are left out, from one goroutine at a time.
	Warn func(path string, err error)
}

// FractionPlan is what is to be done.
type FractionPlan struct {
	Make []Wanted // what is missing, in the order in which it will be made
	Keep int64    // results that are there and stay
	Drop int64    // records that go: no longer wanted, of older versions, damaged
	Copy int64    // of Keep: their packs are written anew
	// KeepBytes is what the results that stay take on disk, about.
	KeepBytes int64
	// SpareBytes is what copying takes on disk for a while, beside that.
	SpareBytes int64
}

// FractionProgress is how far a materializing has come.
type FractionProgress struct {
	Verified             int64 // read because of Verify
	Made, Failed, Copied int64
	Bytes                int64 // written
}

// FractionReport is what a materializing did.
type FractionReport struct {
	FractionProgress
	Kept     int64 // results that were there and are now, those copied included
	Dropped  int64 // records that were there and are no more
	Salvaged int64 // of Kept: taken over from an interrupted run
}

// Materialize brings the fraction of a pipeline, named by its canonical spec,
// made if need be, to hold exactly the wanted results: none of them twice, in
// the order in which they are to be kept when there shall be fewer. What is there
// stays; what is missing is made and written to new packs; packs that hold
// anything else are removed, after what is wanted of them was copied. Nothing
// wanted removes the fraction.
//
// Readers are not disturbed, see [Fraction.Reader]. ErrLocked says that another
// process writes to the store, ErrChanged that it was packed again since it was
// opened. After any error, a canceled context and a full disk included, what was
// there or made so far stays valid and the next run goes on from there.
func (s *Store) Materialize(ctx context.Context, spec string, wanted []Wanted, maker Maker, o FractionOptions) (FractionReport, error) {
	m := &materializing{store: s, spec: spec, wanted: wanted, maker: maker, o: o, fs: s.o.FS}
	m.dir = filepath.Join(s.dir, fractionsName, spec)
	m.setDefaults()
	if err := checkSpec(spec); err != nil {
		return m.report, err
	}
	lock, err := s.lockFractions()
	if err != nil {
		return m.report, err
	}
	if len(wanted) == 0 {
		err = removeFraction(m.fs, s.dir, m.dir)
	} else {
		err = m.run(ctx)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("the disk is full; what is made so far is kept: %w", err)
	}
	return m.report, errors.Join(err, lock.Close())
}

// RemoveFraction removes a fraction, whatever is left of it. ErrNotFound says
// that there is none.
func (s *Store) RemoveFraction(spec string) (err error) {
	if err := checkSpec(spec); err != nil {
		return err
	}
	lock, err := s.lockFractions()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	dir := filepath.Join(s.dir, fractionsName, spec)
	if _, err := s.o.FS.List(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("fraction %s: %w", spec, ErrNotFound)
	}
	return removeFraction(s.o.FS, s.dir, dir)
}

// lockFractions locks the store for writing, if it is what it was when it was
// opened.
func (s *Store) lockFractions() (io.Closer, error) {
	lock, err := s.o.FS.Lock(filepath.Join(s.dir, lockName))
	if err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			err = fmt.Errorf("%s: %w", s.dir, ErrLocked)
		}
		return nil, err
	}
	now, err := openCurrent(s.o.FS, s.dir)
	if err != nil {
		return lock, nil // one that is broken was so when the store was opened
	}
	defer now.close(s.o.Logger)
	if !now.seal.samePacks(&s.seal) {
		return nil, errors.Join(fmt.Errorf("%s was packed again meanwhile: %w", s.dir, ErrChanged), lock.Close())
	}
	return lock, nil
}

// removeFraction removes a fraction's directory. Without its text file what is
// left of it after a crash is no fraction any more.
func removeFraction(fsys vfs.FS, store, dir string) error {
	err := fsys.Remove(filepath.Join(dir, fractionName))
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	fractions := filepath.Dir(dir)
	left, err := fsys.List(fractions)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(left) > 0:
		return fsys.SyncDir(fractions)
	}
	if err := fsys.Remove(fractions); err != nil {
		return err
	}
	return fsys.SyncDir(store)
}

// materializing is one run of Materialize.
type materializing struct {
	store  *Store
	spec   string
	dir    string
	fs     vfs.FS
	wanted []Wanted
	maker  Maker
	o      FractionOptions

	known *catalogue       // for its hash
	index map[uint64]int32 // of wanted, by hash
	at    []location       // of each wanted; 0 where there is none
	packs []*fractionPack  // that are there, in ascending order
	doom  []*fractionPack  // to be removed at the next sweep

	w        *packWriter // nil between packs
	next     uint32      // number of the next pack
	lastSync time.Time
	report   FractionReport
}

func (m *materializing) setDefaults() {
	o := &m.o
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	o.MemoryBytes = cmp.Or(max(o.MemoryBytes, 0), 512<<20)
	o.PackBytes = min(cmp.Or(max(o.PackBytes, 0), 256<<20), maxPackBytes)
	if o.Begin == nil {
		o.Begin = func(FractionPlan) error { return nil }
	}
	if o.Progress == nil {
		o.Progress = func(FractionProgress) {}
	}
	if o.Warn == nil {
		o.Warn = func(path string, err error) { m.store.o.Logger.Warn("left out", "path", path, "error", err) }
	}
}

func (m *materializing) run(ctx context.Context) (err error) {
	defer func() {
		if m.w != nil {
			err = errors.Join(err, m.w.close())
		}
	}()
	if err := m.load(ctx); err != nil {
		return err
	}
	if err := m.o.Begin(m.plan()); err != nil {
		return err
	}
	if err := m.drop(); err != nil {
		return err
	}
	if err := m.begin(); err != nil {
		return err
	}
	if err := m.copyAll(ctx); err != nil {
		return err
	}
	if err := m.makeMissing(ctx); err != nil {
		return err
	}
	return m.seal()
}

// was reads what the directory says of itself; fresh is set where it says nothing.
func (m *materializing) was() (was fractionFile, fresh bool, err error) {
	was, err = readFraction(&m.store.o, m.dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) {
		return was, true, nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", m.dir, err)
	}
	return was, false, err
}

// begin makes the directory, and says what it is.
func (m *materializing) begin() error {
	was, fresh, err := m.was()
	is := fractionFile{Magic: fractionMagic, Version: fractionVersion, Spec: m.spec, Share: m.o.Share}
	if err != nil || !fresh && was == is {
		return err
	}
	if err := m.fs.MkdirAll(m.dir); err != nil {
		return err
	}
	if fresh { // else its name is durable
		if err := errors.Join(m.fs.SyncDir(m.store.dir), m.fs.SyncDir(filepath.Dir(m.dir))); err != nil {
			return err
		}
	}
	text, _, err := encodeText(is)
	if err != nil {
		return err
	}
	return replaceFile(m.fs, filepath.Join(m.dir, fractionName), text)
}

// missing returns the numbers of what is wanted and not there.
func (m *materializing) missing() []int32 {
	var missing []int32
	for i, at := range m.at {
		if at == 0 {
			missing = append(missing, int32(i))
		}
	}
	return missing
}
