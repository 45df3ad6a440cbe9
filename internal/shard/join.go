package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pipefs/pipefs/store"
)

// joiner finds what a store lacks of a dataset. Both are walked once, side by side.
type joiner struct {
	tree Tree
	base *store.Store // nil: there is nothing
	// current reports whether packing would make of an unchanged file what is stored of it.
	current func(*store.Sample) bool
	warn    func(path string, err error) // what cannot be listed: what is stored of it stays
	plan    func(Entry) error            // is called for what is to be packed

	unread []string // paths that could not be listed
	seq    int64    // of the next entry
}

// errStop ends the walk over the index.
var errStop = errors.New("stop")

// stored yields the entries of the base.
func (j *joiner) stored() iter.Seq2[store.Sample, error] {
	return func(yield func(store.Sample, error) bool) {
		if j.base == nil {
			return
		}
		err := j.base.Each(func(s *store.Sample) error {
			if !yield(*s, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(store.Sample{}, err)
		}
	}
}

func (j *joiner) run(ctx context.Context) error {
	next, stop := iter.Pull2(j.stored())
	defer stop()
	s, err, more := next()
	// pass takes the stored entry that comes next; it is gone unless the listing has it.
	pass := func(listed bool) error {
		j.seq = max(j.seq, s.Seq+1)
		if !listed && !below(s.Path, j.unread) {
			if err := j.plan(Entry{Path: s.Path, Kind: store.Tombstone}); err != nil {
				return err
			}
		}
		s, err, more = next()
		return err
	}
	if err != nil {
		return err
	}
	var failed error
	last, first := "", true
	inOrder(ctx, j.tree, func(e Entry, err error) bool {
		failed = func() error {
			switch {
			case err != nil && (e.Path == "" || ctx.Err() != nil):
				return err
			case err != nil:
				j.unread = append(j.unread, e.Path)
				j.warn(e.Path, err)
				return nil
			}
			if err := store.CheckEntry(e.Path, e.Kind); err != nil || len(e.Version) > maxVersion {
				return fmt.Errorf("the dataset has %q, a %v: %w", e.Path, e.Kind, err)
			}
			if !first && comparePaths(last, e.Path) >= 0 {
				return fmt.Errorf("the dataset lists %q after %q", e.Path, last)
			}
			last, first = e.Path, false
			for more && comparePaths(s.Path, e.Path) < 0 {
				if err := pass(false); err != nil {
					return err
				}
			}
			if more && s.Path == e.Path {
				same := s.Kind == e.Kind && s.Mode == e.Mode && s.Source == e.Identity &&
					(s.Kind == store.Dir || j.current(&s))
				if err := pass(true); err != nil || same {
					return err
				}
			}
			return j.plan(e)
		}()
		return failed == nil
	})
	for failed == nil && more {
		failed = pass(false)
	}
	return failed
}
