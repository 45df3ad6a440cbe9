package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"

	sorted "github.com/pipefs/pipefs/internal/index"
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
	// Begin is called with the plan before anything is written; its error ends the run.
	Begin func(FractionPlan) error
	// Progress is called after every result that is verified or made, and after every
	// pack whose results are copied, from one goroutine at a time. Those that are
	// verified come before Begin.
	Progress func(FractionProgress)
	// Warn is called for each sample that is left out, from one goroutine at a time.
	Warn func(path string, err error)
}

// FractionPlan is what is to be done.
type FractionPlan struct {
	Make []Wanted // what is missing, in the order in which it will be made
	Copy int64    // results that stay, and whose packs are written anew
	// KeepBytes is what the results that stay take on disk, about.
	KeepBytes int64
	// CopyBytes is what copying them takes on disk for a while, beside that.
	CopyBytes int64
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

// Materialize makes the fraction of a pipeline hold exactly the wanted results. The
// pipeline is named by its canonical spec. No result may be wanted twice; the first ones
// are kept longest when a later call wants fewer. Missing results are made and written to
// new packs. A pack that holds anything else is removed, after its wanted results were
// copied. Where nothing is wanted the fraction is removed.
//
// Readers are not disturbed, see [Fraction.Reader]. ErrLocked says that another
// process writes to the store, ErrChanged that it was packed again since it was
// opened. After any error, a canceled context and a full disk included, what was
// there or made so far stays valid and the next run goes on from there.
func (s *Store) Materialize(ctx context.Context, spec string, wanted []Wanted, maker Maker, o FractionOptions) (FractionReport, error) {
	if err := checkSpec(spec); err != nil {
		return FractionReport{}, err
	}
	lock, err := s.lockFractions()
	if err != nil {
		return FractionReport{}, err
	}
	dir := filepath.Join(s.dir, fractionsName, spec)
	if len(wanted) == 0 {
		return FractionReport{}, errors.Join(removeFraction(s.o.FS, s.dir, dir), lock.Close())
	}
	m := &materializing{store: s, spec: spec, wanted: wanted, maker: maker, o: o}
	m.setDefaults()
	m.resultWriter = newResultWriter(newResults("fraction", dir, s.o), m.o.PackBytes)
	m.out.syncs = true
	err = errors.Join(m.run(ctx), m.out.close())
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("the disk is full; what is made so far is kept: %w", err)
	}
	m.report.Bytes = m.out.written
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
	lock, err := lockDir(s.o.FS, s.dir)
	if err != nil {
		return nil, err
	}
	now, err := readGeneration(s.o.FS, s.dir)
	if err != nil {
		return lock, nil // one that is broken was so when the store was opened
	}
	if !now.samePacks(s.now.Load().gen) {
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
	switch err := fsys.Remove(fractions); {
	case err == nil:
		return fsys.SyncDir(store)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fsys.SyncDir(fractions) // there are others
}

// materializing is one run of Materialize: packing, whose work is what is wanted and
// not there.
type materializing struct {
	*resultWriter
	store  *Store
	spec   string
	wanted []Wanted
	maker  Maker
	o      FractionOptions
	report FractionReport
}

func (m *materializing) setDefaults() {
	o := &m.o
	o.Workers = positive(o.Workers, runtime.GOMAXPROCS(0))
	o.MemoryBytes = positive(o.MemoryBytes, defaultMemory)
	o.PackBytes = positive(o.PackBytes, defaultBytes)
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

func (m *materializing) run(ctx context.Context) error {
	old, err := readFraction(&m.store.o, m.dir)
	fresh := errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt)
	if err != nil && !fresh {
		return fmt.Errorf("%s: %w", m.dir, err)
	}
	if err := m.load(ctx); err != nil {
		return err
	}
	if err := m.o.Begin(m.plan()); err != nil {
		return err
	}
	err = m.compact(ctx, func(p *packUse) bool { return !p.whole() }, func(p *packUse, copied, _ int64) {
		m.report.Dropped += p.records - copied
		m.report.Copied += copied
		m.progress()
	})
	if err != nil {
		return err
	}
	is := fractionFile{Magic: fractionMagic, Version: fractionVersion, Spec: m.spec, Share: m.o.Share}
	if fresh || old != is {
		if err := m.describe(is, fresh); err != nil {
			return err
		}
	}
	m.report.Kept = m.count()
	if err := inOrder(ctx, m.o.Workers, m.o.MemoryBytes, m.makeMissing); err != nil {
		return err
	}
	return m.out.seal()
}

func (w *Wanted) resultKey() resultKey { return resultKey{w.Path, w.Source, w.Key} }

// load finds out what is there of what is wanted.
func (m *materializing) load(ctx context.Context) (err error) {
	m.report.Salvaged, err = m.resultWriter.load(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no directory
	}
	if err != nil {
		return err
	}
	m.keepOnly(func(yield func(resultKey) bool) {
		for i := range m.wanted {
			if !yield(m.wanted[i].resultKey()) {
				return
			}
		}
	})
	if !m.o.Verify {
		return nil
	}
	for _, p := range m.use() {
		if p.part {
			continue // its data was read when it was taken over
		}
		err := m.eachLive(ctx, p.name, func(vfs.File, resultKey, scanned) error {
			m.report.Verified++
			m.o.Progress(m.report.FractionProgress)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// missing yields what is wanted and not there, in order.
func (m *materializing) missing(yield func(*Wanted) bool) {
	for i := range m.wanted {
		w := &m.wanted[i]
		if _, ok := m.find(w.resultKey()); !ok && !yield(w) {
			return
		}
	}
}

// plan says what is to be done.
func (m *materializing) plan() FractionPlan {
	var plan FractionPlan
	for w := range m.missing {
		plan.Make = append(plan.Make, *w)
	}
	for _, p := range m.use() {
		plan.KeepBytes += p.live.bytes
		if !p.whole() {
			plan.Copy += p.live.records
			plan.CopyBytes += p.live.bytes
		}
	}
	// What was copied goes with every pack that is sealed.
	plan.CopyBytes = min(plan.CopyBytes, 2*m.o.PackBytes)
	return plan
}

// describe makes the directory, and says what it is.
func (m *materializing) describe(is fractionFile, fresh bool) error {
	if err := m.fs.MkdirAll(m.dir); err != nil {
		return err
	}
	if fresh { // else its name is durable
		if err := errors.Join(m.fs.SyncDir(m.store.dir), m.fs.SyncDir(filepath.Dir(m.dir))); err != nil {
			return err
		}
	}
	text, err := sorted.Seal(is)
	if err != nil {
		return err
	}
	return replaceFile(m.fs, filepath.Join(m.dir, fractionName), text)
}

func (m *materializing) progress() {
	m.report.Bytes = m.out.written
	m.o.Progress(m.report.FractionProgress)
}

// makeMissing hands over what is missing.
func (m *materializing) makeMissing(_ context.Context, hand func(work) error) error {
	var missing []*Wanted // before any of them comes to be there
	for w := range m.missing {
		missing = append(missing, w)
	}
	for _, w := range missing {
		var made Made
		err := hand(work{
			weight: max(w.Weight, 0) + 4<<10,
			make: func(ctx context.Context) (err error) {
				made, err = m.maker.Make(ctx, *w)
				return err
			},
			store: func(err error) error { return m.keep(w, made, err) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keep stores a result, or warns that there is none.
func (m *materializing) keep(w *Wanted, made Made, err error) error {
	if made.Release != nil {
		defer made.Release()
	}
	var rec *record
	if err == nil {
		rec, err = resultRecord(w.resultKey(), made.Info, made.Split)
	}
	if err != nil {
		m.report.Failed++
		m.o.Warn(w.Path, err)
		m.progress()
		return nil
	}
	if _, err := m.put(rec); err != nil { // nothing looks for it in this run
		return err
	}
	m.report.Made++
	m.progress()
	return m.out.advance()
}
