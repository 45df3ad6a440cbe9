package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"time"
)

// Change is what [Store.Refresh] found.
type Change struct {
	Before, Now Generation // the same where nothing is newer
	// Files that came, that are other ones by now, and that went.
	Came, Changed, Went int64
	// Left is how many packs the newer generation does not have any more.
	Left int
}

// Shown is the generation that the store shows. Its Name is "" where the store had none and one was
// made for this process.
func (s *Store) Shown() Generation {
	if g := s.now.Load().gen; g.sum != "" {
		return g.id()
	}
	return Generation{}
}

// longBuild is how long the making of an index takes that is not made again and again.
const longBuild = 3 * time.Second

// Refresh opens the current generation, and shows it from then on, if it is another one than that
// which is shown. What was opened before can be read as long as its packs are there: samples of the
// generation before are still found, see [Store.LookupAs], and those of the ones before that are
// not. Before the newer one is shown, taking is told of it.
//
// Where Refresh fails, the store shows what it showed. It fails where it would have to make an index within a
// minute of the last one, if that took longer than longBuild.
func (s *Store) Refresh(ctx context.Context, taking func(Change)) (Change, error) {
	s.refresh.Lock()
	defer s.refresh.Unlock()
	was := s.now.Load()
	ch := Change{Before: s.Shown(), Now: s.Shown()}
	var current currentFile
	_, err := readText(s.o.FS, filepath.Join(s.dir, currentName), &current)
	if err == nil && current.Generation == ch.Before.Name && current.Sum == ch.Before.Sum {
		return ch, nil
	}
	g, err := readGeneration(s.o.FS, s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ch, fmt.Errorf("%s: no generation to refresh from: %w; pipefs check tells what is damaged", s.dir, err)
	case err != nil:
		return ch, fmt.Errorf("%s: the current generation cannot be read: %w", s.dir, err)
	case g.id() == ch.Before:
		return ch, nil
	}
	ch.Now = g.id()
	next := &edition{Store: s, gen: g, recent: newRecent()}
	if err := next.checkPacks(); err != nil {
		return ch, err
	}
	x, err := s.indexes.open(g)
	if err != nil {
		if wait := time.Until(s.buildAgain); wait > 0 {
			return ch, fmt.Errorf("%s: generation %d is there, and its index is made in %v: large ones are made once a minute", s.dir, g.Number, wait.Round(time.Second))
		}
		began := time.Now()
		if x, err = next.makeIndex(ctx); err != nil {
			return ch, fmt.Errorf("%s: the index of generation %d cannot be made: %w", s.dir, g.Number, err)
		}
		if time.Since(began) > longBuild {
			s.buildAgain = began.Add(time.Minute)
		}
	}
	if err := ch.count(ctx, was, x); err != nil {
		_ = x.Close()
		return ch, fmt.Errorf("%s: the index of generation %d: %w", s.dir, g.Number, err)
	}
	ch.Left = was.gen.without(g)
	taking(ch)
	last := s.before.Swap(was)
	next.take(x)
	if last != nil {
		last.close()
	}
	now, both := map[uint32]bool{}, map[uint32]bool{}
	for _, v := range []*edition{next, was} {
		for i := range v.gen.Packs {
			both[v.numbers[i]] = true
			if v == next {
				now[v.numbers[i]] = true
			}
		}
	}
	s.pool.rest(both, true)
	s.pool.rest(now, false)
	return ch, nil
}

// without is how many packs of g another generation does not have.
func (g *generation) without(h *generation) (left int) {
	has := map[packName]bool{}
	for i := range h.Packs {
		has[h.Packs[i].name()] = true
	}
	for i := range g.Packs {
		if !has[g.Packs[i].name()] {
			left++
		}
	}
	return left
}

// count compares the files of two indexes.
func (ch *Change) count(ctx context.Context, was *edition, now *index) error {
	next, stop := iter.Pull2(was.index.Load().items)
	defer stop()
	old, err, more := next()
	step := func() { old, err, more = next() }
	isFile := func(item []byte) bool { return itemKind(item) == File }
	gone := func() {
		if isFile(old) {
			ch.Went++
		}
		step()
	}
	for item, broken := range now.items {
		if broken = cmp.Or(broken, ctx.Err()); broken != nil {
			return broken
		}
		for more && err == nil && ComparePaths(itemPath(old), itemPath(item)) < 0 {
			gone()
		}
		if err != nil {
			return err
		}
		if !more || !bytes.Equal(itemPath(old), itemPath(item)) {
			if isFile(item) {
				ch.Came++
			}
			continue
		}
		switch isNow, was := isFile(item), isFile(old); {
		case isNow && !was:
			ch.Came++
		case was && !isNow:
			ch.Went++
		case isNow && !bytes.Equal(old[itemHead:], item[itemHead:]):
			a, err := decodeItem(old)
			if err != nil {
				return err
			}
			b, err := decodeItem(item)
			if err != nil {
				return err
			}
			if a.Source != b.Source || a.Mode != b.Mode {
				ch.Changed++
			}
		}
		step()
	}
	for more && err == nil {
		gone()
	}
	return err
}

// LookupAs is [Store.Lookup] for one version of a file, which may be that of the generation before
// the one that is shown. The error is ErrNotFound where neither has it.
func (s *Store) LookupAs(path string, id Identity) (Sample, error) {
	now, err := s.Lookup(path)
	if err == nil && now.Source == id || err != nil && !errors.Is(err, ErrNotFound) {
		return now, err
	}
	if v := s.before.Load(); v != nil {
		was, err := v.lookup(path)
		switch {
		case errors.Is(err, errLetGo):
		case err != nil:
			return Sample{}, err
		case was != nil && was.Source == id:
			return *was, nil
		}
	}
	return Sample{}, fmt.Errorf("this version of %q: %w", path, ErrNotFound)
}

// Replaced reports whether what is shown of a file may differ from what the generation before had,
// though the file of the dataset is the same: it was packed again, in other ways.
func (s *Store) Replaced(path string) bool {
	v := s.before.Load()
	if v == nil {
		return false
	}
	was, err := v.lookup(path)
	if err != nil || was == nil {
		return false
	}
	now, err := s.Lookup(path)
	return err == nil && now.Source == was.Source && !now.alike(was)
}

// alike reports whether two entries of one file are stored in the same ways.
func (e *Sample) alike(o *Sample) bool {
	if e.Info != o.Info || e.Fault != o.Fault || len(e.Representations) != len(o.Representations) {
		return false
	}
	for i := range e.Representations {
		rep := &e.Representations[i]
		other := o.Representation(rep.Key)
		if other == nil || len(rep.Levels) != len(other.Levels) {
			return false
		}
		for level := range len(rep.Levels) + 1 {
			if rep.Size(level) != other.Size(level) {
				return false
			}
		}
	}
	return true
}
