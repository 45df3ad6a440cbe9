package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// Fraction is what one pipeline made of some of a store's samples, kept in the
// store. It is only a copy: everything in it can be made again, and its packs are removed
// while it is used. It is safe for concurrent use and takes some 40 bytes of memory a
// sample. Its readers go on working when the pack is removed for as long as the pack is
// open; after that they fail with an error of the class fs.ErrNotExist.
type Fraction struct {
	*results
	info  fractionFile
	bytes int64 // of packs that were there when it was opened
}

// fractionFile says what a directory of packs holds.
type fractionFile struct {
	Magic   string  `json:"magic"`
	Version int     `json:"version"`
	Spec    string  `json:"spec"`
	Share   float64 `json:"share"` // of the samples, that was asked for last
}

const (
	fractionsName   = "fractions"
	fractionName    = "FRACTION"
	fractionMagic   = "pipefs fraction"
	fractionVersion = 1
)

// checkSpec refuses specs that are no names of directories.
func checkSpec(spec string) error {
	if spec == "" || len(spec) > 255 || spec[0] == '.' || strings.ContainsAny(spec, "/\x00") {
		return fmt.Errorf("%q cannot be the name of a fraction's directory", spec)
	}
	return nil
}

func readFraction(o *Options, dir string) (fractionFile, error) {
	var f fractionFile
	_, err := readText(o.FS, filepath.Join(dir, fractionName), &f)
	switch {
	case err != nil:
	case f.Magic != fractionMagic:
		err = &CorruptError{Path: fractionName, Cause: errors.New("of something else")}
	case f.Version != fractionVersion:
		err = fmt.Errorf("version %d: %w", f.Version, ErrVersion)
	case f.Spec != filepath.Base(dir):
		err = &CorruptError{Path: fractionName, Cause: fmt.Errorf("is that of %q", f.Spec)}
	}
	return f, err
}

// openFractions opens what fractions there are, by name. A store is as good
// without them: what is wrong with one is logged.
func openFractions(o *Options, store string) []*Fraction {
	dir := filepath.Join(store, fractionsName)
	names, err := o.FS.List(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			o.Logger.Warn("the fractions of the store cannot be used", "store", store, "error", err)
		}
		return nil
	}
	var all []*Fraction
	for _, spec := range names {
		if checkSpec(spec) != nil {
			continue
		}
		f, err := openFraction(o, filepath.Join(dir, spec))
		switch {
		case err == nil:
			all = append(all, f)
		case !errors.Is(err, fs.ErrNotExist): // else one that was begun, or half removed
			o.Logger.Warn("a fraction of the store cannot be used; pipefs materialize makes it again", "fraction", filepath.Join(dir, spec), "error", err)
		}
	}
	return all
}

// openFraction reads the footers of a fraction's sealed packs. A pack that
// cannot be read is left out.
func openFraction(o *Options, dir string) (*Fraction, error) {
	info, err := readFraction(o, dir)
	if err != nil {
		return nil, err
	}
	sealed, _, err := listPacks(o.FS, dir)
	if err != nil {
		return nil, err
	}
	f := &Fraction{results: newResults("fraction", dir, *o), info: info}
	for _, n := range sealed {
		seal, whole, err := f.eachRecord(n, f.know)
		switch {
		case err != nil:
			f.warn(uint32(n.age), err)
		case whole:
			f.pool.add(byAge(n), &seal)
		default:
			f.pool.add(byAge(n), nil)
		}
		f.bytes += seal.Size
	}
	return f, nil
}

// Fractions returns the fractions that the store had when it was opened, by
// name. The caller must not change the slice.
func (s *Store) Fractions() []*Fraction { return s.fractions }

// Fraction finds a fraction by the canonical spec of its pipeline; nil where
// there is none.
func (s *Store) Fraction(spec string) *Fraction {
	for _, f := range s.fractions {
		if f.info.Spec == spec {
			return f
		}
	}
	return nil
}

// Holds reports whether the store had a result of a sample under a key when it was
// opened, packed or in a fraction. It never changes; see [Fraction.Held].
func (s *Store) Holds(sample *Sample, key string) bool {
	if sample.Representation(key) != nil {
		return true
	}
	for _, f := range s.fractions {
		if f.Held(sample.Path, sample.Source, key) {
			return true
		}
	}
	return false
}

// Spec is the canonical spec of the pipeline.
func (f *Fraction) Spec() string { return f.info.Spec }

// Share is the share of the samples, from 0 to 1, that was asked for. There may
// be fewer: where making them was interrupted, and where the dataset was packed
// again since.
func (f *Fraction) Share() float64 { return f.info.Share }

// Count is the number of results that it holds, those of samples that have
// changed since included.
func (f *Fraction) Count() int64 { return f.count() }

// Bytes is what its packs took on disk when it was opened.
func (f *Fraction) Bytes() int64 { return f.bytes }

// Held reports whether there was such a result when the fraction was opened. It
// never changes, also where that proved to be damaged.
func (f *Fraction) Held(path string, src Identity, key string) bool {
	k := resultKey{path, src, key}
	f.damage.Lock()
	defer f.damage.Unlock()
	_, ok := f.find(k)
	return ok || f.lost[k]
}

// fractions checks every fraction. A problem of one is no problem of the store:
// it holds copies only.
func (c *checker) fractions() error {
	names, err := c.o.FS.List(filepath.Join(c.dir, fractionsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, spec := range names {
		if checkSpec(spec) != nil {
			continue
		}
		if err := c.fraction(spec); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) fraction(spec string) error {
	dir := path.Join(fractionsName, spec)
	first := len(c.problems)
	info, err := readFraction(&c.o, filepath.Join(c.dir, dir))
	if errors.Is(err, fs.ErrNotExist) {
		c.add(Orphaned, dir, "", 0, errors.New("an interrupted run left it: no file "+fractionName))
	} else if err := c.found(path.Join(dir, fractionName), err); err != nil {
		return err
	}
	sealed, unfinished, err := listPacks(c.o.FS, filepath.Join(c.dir, dir))
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		c.problems = c.problems[:first]
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range sealed {
		if err := c.fractionPack(dir, n); err != nil {
			return err
		}
	}
	c.leftovers(dir, unfinished)
	again := fmt.Sprintf("pipefs materialize --verify %s %s", c.dir, spec)
	if info.Share > 0 {
		again += fmt.Sprintf(" --fraction %g", info.Share)
	} else {
		again += " with its --fraction"
	}
	for i := range c.problems[first:] {
		p := &c.problems[first+i]
		p.Cause = fmt.Errorf("%w; it is only a copy: %s makes it again", p.Cause, again)
	}
	return nil
}

// fractionPack checks a pack of a fraction, which may be removed at any moment.
func (c *checker) fractionPack(dir string, n packName) error {
	name := path.Join(dir, n.String())
	f, err := c.o.FS.Open(filepath.Join(c.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return c.records(f, name, byAge(n), nil, func([]Sample) {})
}

// leftovers reports unfinished packs in a directory, unless somebody is writing.
func (c *checker) leftovers(dir string, unfinished []packName) {
	if len(unfinished) == 0 {
		return
	}
	lock, err := c.o.FS.Lock(filepath.Join(c.dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return
	}
	if err == nil {
		defer lock.Close()
	}
	for _, n := range unfinished {
		c.add(Orphaned, path.Join(dir, n.String()), "", 0,
			errors.New("left by an interrupted run: pack and materialize continue with theirs, compact removes its own; run that command again"))
	}
}
