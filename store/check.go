package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/store/vfs"
)

// ProblemKind is what is wrong with a store.
type ProblemKind string

// The kinds of problem.
const (
	Missing   ProblemKind = "missing"   // the index names a pack that is not there
	Truncated ProblemKind = "truncated" // a pack is shorter than it was
	Orphaned  ProblemKind = "orphaned"  // nothing refers to it
	Corrupt   ProblemKind = "corrupt"   // a checksum or a cross-check fails
)

// Problem is one thing that Check found.
type Problem struct {
	Kind   ProblemKind
	Name   string // file, relative to the store
	Path   string // of the sample concerned; may be empty
	Offset int64  // in the file
	Cause  error
}

func (p Problem) String() string {
	s := fmt.Sprintf("%s: %s", p.Name, p.Kind)
	if p.Path != "" {
		s += fmt.Sprintf(", sample %s", p.Path)
	}
	if p.Offset > 0 {
		s += fmt.Sprintf(", offset %d", p.Offset)
	}
	return fmt.Sprintf("%s: %v", s, p.Cause)
}

// Check reads every byte of a store and returns what is wrong with it: nothing,
// for a store that is whole. The error is about the check itself, not about the
// store: ErrNotStore, a canceled context, an operation that failed.
func Check(ctx context.Context, dir string, o Options) ([]Problem, error) {
	o.setDefaults()
	c := &checker{ctx: ctx, dir: dir, o: o, live: map[string]int64{}}
	err := c.check()
	if c.index != nil {
		c.index.close(o.Logger)
	}
	return c.problems, err
}

type checker struct {
	ctx      context.Context
	dir      string
	o        Options
	index    *index
	problems []Problem
	live     map[string]int64 // sequence number of the newest entry of each path
}

func (c *checker) add(kind ProblemKind, name, sample string, off int64, cause error) {
	c.problems = append(c.problems, Problem{kind, name, sample, off, cause})
}

// found adds a problem from an error; one that is no corruption is returned.
func (c *checker) found(name string, err error) error {
	var bad *CorruptError
	switch {
	case err == nil:
	case errors.As(err, &bad):
		kind := Corrupt
		if errors.Is(err, errShort) {
			kind = Truncated
		}
		c.add(kind, name, bad.Path, bad.Offset, bad.Cause)
	case errors.Is(err, ErrVersion):
		c.add(Corrupt, name, "", 0, err)
	default:
		return err
	}
	return nil
}

func (c *checker) check() error {
	if _, err := readFormat(c.o.FS, c.dir); err != nil {
		if err := c.found(formatName, err); err != nil {
			return err
		}
	}
	sealed, unfinished, err := listPacks(c.o.FS, filepath.Join(c.dir, packsName))
	if err != nil {
		return err
	}
	if err := c.openIndex(len(sealed) > 0); err != nil {
		return err
	}
	c.leftovers(packsName, unfinished)
	for _, n := range sealed {
		if err := c.pack(n); err != nil {
			return err
		}
	}
	if err := c.fractions(); err != nil {
		return err
	}
	if c.index == nil {
		return nil
	}
	for _, want := range c.index.seal.Packs {
		if !slices.Contains(sealed, want.Number) {
			c.add(Missing, path.Join(packsName, packName(want.Number)), "", 0, errors.New("the index refers to it"))
		}
	}
	return c.compare()
}

func (c *checker) openIndex(wanted bool) error {
	x, err := openCurrent(c.o.FS, c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if wanted {
			c.add(Missing, currentName, "", 0, fmt.Errorf("no index: %w", err))
		}
		return nil
	}
	var bad *CorruptError
	if errors.As(err, &bad) && bad.Path != "" { // the file of the index
		return c.found(bad.Path, &CorruptError{Cause: bad.Cause})
	}
	c.index = x
	return c.found(currentName, err)
}

// pack checks one pack against itself and against the index.
func (c *checker) pack(n uint32) error {
	name := path.Join(packsName, packName(n))
	f, err := c.o.FS.Open(filepath.Join(c.dir, packsName, packName(n)))
	if err != nil {
		return err
	}
	defer f.Close()
	indexed := true
	if c.index != nil {
		i := slices.IndexFunc(c.index.seal.Packs, func(s packSeal) bool { return s.Number == n })
		if indexed = i >= 0; !indexed {
			c.add(Orphaned, name, "", 0, errors.New("the index does not know it; packing again takes it in"))
		} else if size, err := f.Size(); err == nil && size < c.index.seal.Packs[i].Size {
			c.add(Truncated, name, "", size, fmt.Errorf("%d bytes, the index knows %d", size, c.index.seal.Packs[i].Size))
		} else if err := c.index.seal.Packs[i].same(f); err != nil {
			return c.found(name, err)
		}
	}
	return c.records(f, name, n, func(samples []Sample) {
		if indexed {
			c.remember(samples)
		}
	})
}

// records checks a pack against itself, and calls each with the entries of every
// record.
func (c *checker) records(f vfs.File, name string, n uint32, each func([]Sample)) error {
	seal, records, err := readFooter(f, n)
	if err != nil {
		return c.found(name, err)
	}
	scratch := new([ChunkSize]byte)
	var buf []byte
	for _, r := range records {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		rec, err := readRecord(f, n, r.off, seal.footerOff, &buf)
		if err == nil && !bytes.Equal(rec.meta, r.meta) {
			err = corruptAt(n, r.off, "", errors.New("the footer describes another record"))
		}
		if err := c.found(name, err); err != nil {
			return err
		}
		samples, err := decodeRecord(r.meta, r.at)
		if err != nil {
			c.add(Corrupt, name, "", r.metaOff, err)
			continue
		}
		each(samples)
		if err := c.data(f, name, samples, scratch); err != nil {
			return err
		}
	}
	return nil
}

// remember takes note of the newest entry of each path.
func (c *checker) remember(samples []Sample) {
	for i := range samples {
		if s := &samples[i]; s.Kind == Tombstone {
			delete(c.live, s.Path)
		} else {
			c.live[s.Path] = s.Seq
		}
	}
}

// data checks the data of a record's entries.
func (c *checker) data(f vfs.File, name string, samples []Sample, scratch *[ChunkSize]byte) error {
	for i := range samples {
		s := &samples[i]
		for _, r := range s.Representations {
			for _, p := range r.Parts {
				if err := c.found(name, verifyPart(f, p, s.Path, scratch)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compare checks that the index holds the newest entry of each path, and a directory
// for it to be in.
func (c *checker) compare() error {
	var lost orphans
	err := c.index.each(func(s *Sample) error {
		if err := lost.meet(c, s.Path); err != nil {
			return err
		}
		if seq, ok := c.live[s.Path]; !ok {
			c.add(Orphaned, c.index.name, s.Path, 0, errors.New("no pack holds it"))
		} else if seq != s.Seq {
			c.add(Corrupt, c.index.name, s.Path, 0, fmt.Errorf("entry %d of the index is not the newest, %d", s.Seq, seq))
		}
		delete(c.live, s.Path)
		return c.ctx.Err()
	})
	lost.report(c)
	if err := c.found(c.index.name, err); err != nil {
		return err
	}
	for p := range c.live {
		c.add(Missing, c.index.name, p, 0, errors.New("the index does not hold it"))
	}
	return nil
}

// orphans counts the entries of a directory that has no entry itself. The index has
// what a directory holds together.
type orphans struct {
	dir string
	n   int // 0 where the directory has an entry
}

func (o *orphans) meet(c *checker, path string) error {
	dir, _ := splitPath(path)
	if dir == o.dir { // at first the dataset itself, which needs no entry
		if o.n > 0 {
			o.n++
		}
		return nil
	}
	o.report(c)
	o.dir, o.n = dir, 0
	parent, err := c.index.get(dir)
	if err == nil && (parent == nil || parent.Kind != Dir) {
		o.n = 1
	}
	return err
}

func (o *orphans) report(c *checker) {
	if o.n > 0 {
		c.add(Missing, c.index.name, o.dir, 0, fmt.Errorf("no pack holds the entry of this directory: its %d members are not shown; pack again", o.n))
	}
}
