package fs

import (
	iofs "io/fs"
	"iter"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// Member is a directory or file of a view. Both paths are relative to its root.
type Member struct {
	Path   string // the own names: where it is in the dataset
	Listed string // as the view lists it
	Dir    bool
}

// Walk yields the directories and files of a view in the order of listing, a
// directory before what is in it; the root is not among them. Nothing is read or
// produced for it, and nothing has to be mounted. An error is about the directory
// that it comes with, and the walk goes on behind it.
func (f *FS) Walk(p transcode.Pipeline) (iter.Seq2[Member, error], error) {
	v, err := f.addView(p, false)
	if err != nil {
		return nil, err
	}
	return f.walk(v), nil
}

func (f *FS) walk(v *view) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		f.walkBelow(v, f.tree.dir(rootID), Member{Dir: true}, yield)
	}
}

// walkBelow reports whether the walk goes on.
func (f *FS) walkBelow(v *view, d *dir, at Member, yield func(Member, error) bool) bool {
	s, err := f.listing(d)
	if isGone(err) && d.id != rootID {
		return true // it went since its parent was listed
	}
	if err != nil {
		return yield(at, err)
	}
	n := f.namesOf(v, d, s)
	for i := range s.ids {
		id := s.at(i)
		m := Member{Path: join(at.Path, f.tree.name(id)), Listed: join(at.Listed, n.listedOf(i))}
		m.Dir = f.tree.entries.at(id).kind == isDir
		if !yield(m, nil) || m.Dir && !f.walkBelow(v, f.tree.dir(id), m, yield) {
			return false
		}
	}
	return true
}

// Listed is the path under which a view lists the file of the dataset at path. As with
// Walk nothing is read or produced for it.
func (f *FS) Listed(p transcode.Pipeline, path string) (string, error) {
	v, err := f.addView(p, false)
	if err != nil {
		return "", err
	}
	listed := ""
	for d := f.tree.dir(rootID); d != nil; {
		name, rest, below := strings.Cut(path, "/")
		s, err := f.listing(d)
		if err != nil {
			return "", err
		}
		n := f.namesOf(v, d, s)
		k := f.tree.search(s, name)
		if k == len(s.ids) || n.own(k) != name {
			break
		}
		if listed = join(listed, n.listed(k)); !below {
			return listed, nil
		}
		d, path = f.tree.dir(s.at(s.position(k))), rest
	}
	return "", iofs.ErrNotExist
}
