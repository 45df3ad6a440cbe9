package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
//
// progress is told how many packs were read, of how many; it may be nil.
func Check(ctx context.Context, dir string, o Options, progress func(done, of int)) ([]Problem, error) {
	o.setDefaults()
	if progress == nil {
		progress = func(int, int) {}
	}
	c := &checker{ctx: ctx, dir: dir, o: o, progress: progress, live: map[string]int64{}}
	err := c.check()
	if c.index != nil {
		_ = c.index.Close()
	}
	return c.problems, err
}

type checker struct {
	ctx      context.Context
	dir      string
	o        Options
	progress func(done, of int)
	gen      *generation // nil where it cannot be read
	index    *index      // nil where it cannot be read
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
	sealed, unfinished, err := listStored(c.o.FS, c.dir)
	var bad *CorruptError
	if errors.As(err, &bad) { // what says which packs of a plan count
		c.add(Corrupt, bad.Path, "", 0, bad.Cause)
		if sealed, unfinished, err = listPacks(c.o.FS, filepath.Join(c.dir, packsName)); errors.Is(err, fs.ErrNotExist) {
			err = nil // all may be of plans
		}
	}
	if err != nil {
		return err
	}
	if err := c.openIndex(len(sealed) > 0); err != nil {
		return err
	}
	if sealed, err = c.ofPlans(c.gen.counting(sealed), bad != nil); err != nil {
		return err
	}
	c.leftovers(packsName, unfinished)
	for i, n := range sealed {
		c.progress(i, len(sealed))
		if err := c.pack(n); err != nil {
			return err
		}
	}
	if err := c.fractions(); err != nil {
		return err
	}
	if c.gen == nil {
		return nil
	}
	for _, want := range c.gen.Packs {
		if !slices.Contains(sealed, want.name()) {
			c.add(Missing, want.name().file(), "", 0, errors.New("the index refers to it"))
		}
	}
	if c.index == nil {
		return nil
	}
	return c.compare()
}

// ofPlans adds the packs of plans that the generation names, and that a new generation would
// not find.
func (c *checker) ofPlans(sealed []packName, known bool) ([]packName, error) {
	if c.gen == nil {
		return sealed, nil
	}
	lost := map[packID][]packName{}
	for i := range c.gen.Packs {
		n := c.gen.Packs[i].name()
		if n.plan != (packID{}) && !slices.ContainsFunc(sealed, func(m packName) bool { return m == n }) {
			lost[n.plan] = append(lost[n.plan], n)
		}
	}
	for plan, packs := range lost {
		there, err := present(c.o.FS, c.dir, plan, packs)
		if err != nil {
			return nil, err
		}
		if len(there) > 0 && !known {
			c.add(Missing, committedPath(plan), "", 0, errors.New("packs of the plan could not be found if the index had to be made again; pipefs commit of this plan writes it"))
		}
		sealed = append(sealed, there...)
	}
	slices.SortFunc(sealed, packName.compare)
	return sealed, nil
}

func (c *checker) openIndex(wanted bool) error {
	g, err := readGeneration(c.o.FS, c.dir)
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
	if err != nil {
		return c.found(currentName, err)
	}
	c.gen = g
	x, err := indexDirOf(c.dir, c.o.IndexDir).open(g)
	switch {
	case errors.As(err, &bad):
		return c.found(bad.Path, &CorruptError{Cause: bad.Cause})
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is made when the store is opened
	}
	c.index = x
	return err
}

// pack checks one pack against itself and against the index.
func (c *checker) pack(n packName) error {
	name := n.file()
	f, err := c.o.FS.Open(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	indexed := true
	var of *SealedPack // nil where its segment is not looked at
	if c.gen != nil {
		i := slices.IndexFunc(c.gen.Packs, func(s SealedPack) bool { return s.name() == n })
		if indexed = i >= 0; !indexed {
			c.add(Orphaned, name, "", 0, errors.New("the index does not know it; packing again takes it in"))
		} else if size, err := f.Size(); err == nil && size < c.gen.Packs[i].Size {
			c.add(Truncated, name, "", size, fmt.Errorf("%d bytes, the index knows %d", size, c.gen.Packs[i].Size))
		} else if err := c.gen.Packs[i].same(f); err != nil {
			return c.found(name, err)
		} else {
			of = &c.gen.Packs[i]
		}
	}
	return c.records(f, name, packRef{packName: n}, of, func(samples []Sample) {
		if indexed {
			c.remember(samples)
		}
	})
}

// records checks a pack against itself, and its segment, unless of is nil. It calls each with the
// entries of every record.
func (c *checker) records(f vfs.File, name string, p packRef, of *SealedPack, each func([]Sample)) error {
	seal, records, err := readFooter(f, p)
	if err == nil && of != nil {
		err = c.segment(of, records)
	}
	if err != nil {
		return c.found(name, err)
	}
	var buf []byte
	for _, r := range records {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		rec, err := readRecord(f, p, r.off, seal.footerOff, &buf)
		if err == nil && !bytes.Equal(rec.meta, r.meta) {
			err = corruptAt(p.packName, r.off, "", errors.New("the footer describes another record"))
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
		err = eachPart(samples, func(path string, part Part) error {
			return c.found(name, verifyPart(f, p.packName, part, path))
		})
		if err != nil {
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

// segment checks that the segment of a pack holds what the pack's footer says: the same
// entries make the same bytes.
func (c *checker) segment(p *SealedPack, records []described) error {
	name := p.name().segment()
	l, err := openSegment(c.o.FS, c.dir, p.name(), p.Segment)
	if errors.Is(err, fs.ErrNotExist) {
		c.add(Missing, name, "", 0, errors.New("packing again makes it from its pack"))
		return nil
	}
	if err != nil {
		return c.segmentProblem(name, err)
	}
	defer l.f.Close()
	err = l.each(func([]byte) bool { return c.ctx.Err() == nil })
	if err == nil {
		var want listSeal
		if want, err = writeSegment(discard{}, p.name(), records); err == nil && want != l.seal {
			err = errors.New("not what the pack says; packing again makes it from its pack")
		}
	}
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	return c.segmentProblem(name, damaged("", err))
}

func (c *checker) segmentProblem(name string, err error) error {
	var bad *CorruptError
	if errors.As(err, &bad) {
		err = &CorruptError{Cause: bad.Cause}
	}
	return c.found(name, err)
}

// discard is a file that keeps nothing.
type discard struct{ vfs.File }

func (discard) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
