package names

import (
	"bytes"
	"io/fs"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/source"
)

// Tree reads an index of paths. It is safe for concurrent use.
type Tree struct {
	*index.Index
	// Hidden is that files are in the index that directories hide.
	Hidden bool
}

// Find returns the value of a file, or that the path is a directory. The error is of the class
// [fs.ErrNotExist] where it is neither.
func (t *Tree) Find(path string) (value []byte, dir bool, err error) {
	if path == "" {
		return nil, true, nil
	}
	value, err = t.Get(nil, []byte(path))
	if err != nil {
		return nil, false, err
	}
	if value == nil || t.Hidden {
		dir, err := t.isDir(path)
		switch {
		case err != nil:
			return nil, false, err
		case dir:
			return nil, true, nil
		case value == nil:
			return nil, false, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
		}
	}
	return value, false, nil
}

// isDir reports whether a path is that of a directory.
func (t *Tree) isDir(path string) (is bool, err error) {
	prefix := []byte(path + "/")
	err = t.Walk(prefix, func(key, _ []byte) error {
		is = bytes.HasPrefix(key, prefix)
		return index.ErrEnough
	})
	return is, err
}

// List returns the members of a directory, by name.
func (t *Tree) List(dir string) ([]source.Entry, error) {
	prefix := ""
	if dir != "" {
		prefix = dir + "/"
	}
	l := lister{prefix: prefix, from: prefix}
	for l.more = true; l.more; {
		l.more, l.skipped = false, 0
		if err := t.Walk([]byte(l.from), l.add); err != nil {
			return nil, err
		}
	}
	if !l.found && dir != "" {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	return l.done(), nil
}

// skipItems is how many files of a directory are passed one by one before those that follow
// are searched for.
const skipItems = 32

// lister collects the members of a directory.
type lister struct {
	prefix  string
	from    string // where the next walk begins, if there are more
	more    bool
	skipped int
	found   bool // the directory is there
	entries []source.Entry
	in      []byte // the name of the last directory in it, with the prefix and a slash
	dirs    int
}

// add takes the next path.
func (l *lister) add(path, _ []byte) error {
	if !bytes.HasPrefix(path, []byte(l.prefix)) {
		return index.ErrEnough
	}
	l.found = true
	if l.in != nil && bytes.HasPrefix(path, l.in) {
		if l.skipped++; l.skipped < skipItems {
			return nil
		}
		// behind all that is in the directory: what ends with the byte after the slash
		l.from, l.more = string(l.in[:len(l.in)-1])+"0", true
		return index.ErrEnough
	}
	l.skipped = 0
	rest := path[len(l.prefix):]
	end := bytes.IndexByte(rest, '/')
	switch {
	case len(rest) == 0: // the directory itself
	case end < 0:
		l.entries = append(l.entries, source.Entry{Name: string(rest)})
	default:
		l.in = append(l.in[:0], path[:len(l.prefix)+end+1]...)
		l.entries = append(l.entries, source.Entry{Name: string(rest[:end]), Dir: true})
		l.dirs++
	}
	return nil
}

// done returns the entries by name, where they were by names with a slash behind directories. A
// directory hides a file of its name.
func (l *lister) done() []source.Entry {
	if l.dirs == 0 {
		return l.entries
	}
	return sortEntries(l.entries)
}
