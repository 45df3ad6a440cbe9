// Package names is a tree of files in an index: the files of a bucket, or the members of archives.
// A key is the path of a file; a value is whatever its source has to know of it. A path that ends
// with a slash is a directory that may be empty; every other directory is there because of the
// files below it.
//
// A directory hides a file of the same path. A path that no file can have is left out, counted
// and logged.
package names

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/mounts"
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
	slices.SortFunc(l.entries, func(a, b source.Entry) int {
		switch c := strings.Compare(a.Name, b.Name); {
		case c != 0 || a.Dir == b.Dir:
			return c
		case a.Dir:
			return -1
		}
		return 1
	})
	return slices.CompactFunc(l.entries, func(a, b source.Entry) bool { return a.Name == b.Name })
}

// maxPart is the longest name of a file or directory, in bytes.
const maxPart = 255

// Unfit says why the name of an object is no path; empty where it is one.
func Unfit(name string) string {
	if !utf8.ValidString(name) {
		return "it is no UTF-8"
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "it has a zero byte"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return "a part of it is empty"
		case part == ".", part == "..":
			return "a part of it is " + part
		case len(part) > maxPart:
			return "a part of it has more than 255 bytes"
		}
	}
	return ""
}

// Writer writes an index of paths in the order of their bytes.
type Writer struct {
	w    *index.Writer
	of   string // what the files are in, for messages
	log  *slog.Logger
	last string
	// above are the files that were written and that the last path begins with, in order. If what
	// follows such a path is a slash, it is a directory as well.
	above []above
	Counts
}

// Counts are what was written.
type Counts struct {
	Objects int64 `json:"objects"`  // files: objects of a bucket, members of archives
	Bytes   int64 `json:"bytes"`    // of the files
	LeftOut int64 `json:"left_out"` // files whose paths no file can have, and Shadowed
	// Shadowed is the number of files that are in the index, and left out because their paths
	// are also directories.
	Shadowed int64 `json:"shadowed"`
}

type above struct {
	path   string
	size   int64
	hidden bool // it was counted in Shadowed
}

// ErrOrder is that a path does not come after the one before it.
var ErrOrder = errors.New("not in the order of names")

// Create begins an index in a directory; see [index.Create].
func Create(ctx context.Context, dir, id, of string, size int64, log *slog.Logger) (*Writer, error) {
	w, err := index.Create(ctx, dir, id, size)
	if err != nil {
		return nil, err
	}
	return &Writer{w: w, of: of, log: log}, nil
}

// Add adds a file of a size, or a directory where the path ends with a slash.
func (w *Writer) Add(path string, value []byte, size int64) error {
	if why := Unfit(strings.TrimSuffix(path, "/")); why != "" {
		w.LeaveOut(path, why)
		return nil
	}
	if w.last != "" && path <= w.last {
		return fmt.Errorf("%q comes behind %q: %w", path, w.last, ErrOrder)
	}
	w.last = path
	w.note(path, size)
	if err := w.w.Add([]byte(path), value); err != nil {
		return err
	}
	if !strings.HasSuffix(path, "/") {
		w.Objects++
		w.Bytes += size
	}
	return nil
}

// note finds files whose paths are also directories.
func (w *Writer) note(path string, size int64) {
	for len(w.above) > 0 && !strings.HasPrefix(path, w.above[len(w.above)-1].path) {
		w.above = w.above[:len(w.above)-1]
	}
	for k := range w.above {
		a := &w.above[k]
		if !a.hidden && path[len(a.path)] == '/' {
			a.hidden = true
			w.Shadowed++
			w.Objects--
			w.Bytes -= a.size
			w.LeaveOut(a.path, "others have it before a slash, so it is a directory")
		}
	}
	if !strings.HasSuffix(path, "/") {
		w.above = append(w.above, above{path: path, size: size})
	}
}

// mostLogged is how many of the files that are left out are logged one by one.
const mostLogged = 20

// LeaveOut counts and logs a file that is not shown.
func (w *Writer) LeaveOut(path, why string) {
	switch w.LeftOut++; {
	case w.LeftOut <= mostLogged:
		w.log.Warn("a file is left out", "of", w.of, "name", fmt.Sprintf("%q", path), "cause", why)
	case w.LeftOut == mostLogged+1:
		w.log.Warn("more files are left out, and counted only", "of", w.of)
	}
}

// Finish makes the index appear; see [index.Writer.Finish].
func (w *Writer) Finish(meta any) error { return w.w.Finish(meta) }

// Abort removes what was written.
func (w *Writer) Abort() error { return w.w.Abort() }

// Kept returns what open finds, or what write makes in the directory at, which all mounts of a user share. open
// returns nil where there is nothing that will do. One process at a time writes. Where it cannot be
// kept there, for want of space or of permission, or because the process that writes was killed and still
// holds its lock, write makes one for this process alone. What open did not want is removed then, so that nobody goes
// back to it.
func Kept[T any](ctx context.Context, at string, log *slog.Logger, open func() (*T, error), write func(dir string) (*T, error)) (*T, error) {
	found, err := keep(ctx, at, open, write)
	if !slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOTDIR, mounts.ErrEnded}, func(e error) bool { return errors.Is(err, e) }) {
		return found, err
	}
	log.Warn("the list of names cannot be kept; it is made for this mount alone", "dir", filepath.Dir(at), "cause", err)
	if err := os.RemoveAll(at); err != nil {
		log.Warn("an old list of names cannot be removed, and mounts to come may show it", "dir", at, "cause", err)
	}
	dir, err := os.MkdirTemp("", "pipefs-list-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what is open stays readable
	return write(filepath.Join(dir, "names"))
}

func keep[T any](ctx context.Context, at string, open func() (*T, error), write func(dir string) (*T, error)) (*T, error) {
	if found, err := open(); found != nil || err != nil {
		return found, err
	}
	unlock, err := lock(ctx, at)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another mount may have made it meanwhile.
	if found, err := open(); found != nil || err != nil {
		return found, err
	}
	return write(at)
}

// lock waits until no other mount of this user writes the index.
func lock(ctx context.Context, at string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil { // it may have gone since it was there
		return nil, fmt.Errorf("directory for lists of names: %w", err)
	}
	f, err := os.OpenFile(at+".listing", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := mounts.Lock(ctx, f, unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("another mount makes the list of names: %w", err)
	}
	return func() { f.Close() }, nil
}
