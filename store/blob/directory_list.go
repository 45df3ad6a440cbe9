package blob

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// List implements [Objects]. A directory that has no objects below it is not listed.
func (d *Directory) List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]Info, error] {
	return func(yield func([]Info, error) bool) {
		l := lister{d: d, ctx: ctx, prefix: prefix, deep: deep, yield: yield}
		// The part up to the last slash of the prefix is a directory, or nothing begins with it.
		dir := strings.TrimSuffix(prefix[:strings.LastIndexByte(prefix, '/')+1], "/")
		if dir != "" && checkName(dir) != nil {
			return
		}
		if l.walk(dir) && len(l.page) > 0 {
			yield(l.page, nil)
		}
	}
}

type lister struct {
	d      *Directory
	ctx    context.Context
	prefix string
	deep   bool
	page   []Info
	yield  func([]Info, error) bool
}

// fail ends the list.
func (l *lister) fail(err error) bool {
	l.yield(nil, err)
	return false
}

func (l *lister) add(i Info) bool {
	l.page = append(l.page, i)
	if len(l.page) < pageSize {
		return true
	}
	page := l.page
	l.page = nil
	return l.yield(page, nil)
}

// walk lists what is in a directory. It returns false if the list ends.
func (l *lister) walk(dir string) bool {
	names, err := l.d.entries(dir)
	if err != nil {
		return l.fail(err)
	}
	for _, e := range names {
		if err := l.ctx.Err(); err != nil {
			return l.fail(err)
		}
		full := path.Join(dir, e.name)
		switch {
		case !e.dir && strings.HasPrefix(full, l.prefix):
			if !l.add(infoOf(&e.stat, full)) {
				return false
			}
		case e.dir && l.deep && strings.HasPrefix(full+"/", l.prefix):
			if !l.walk(full) {
				return false
			}
		case e.dir && !l.deep && strings.HasPrefix(full+"/", l.prefix):
			holds, err := l.d.holds(full)
			if err != nil {
				return l.fail(err)
			}
			if holds && !l.add(Info{Name: full, Dir: true}) {
				return false
			}
		}
	}
	return true
}

type entry struct {
	name string
	dir  bool
	stat unix.Stat_t
}

// entries are the objects and directories in a directory, in the order of their names, where that
// of a directory ends with a slash. One that is not there has none.
func (d *Directory) entries(dir string) ([]entry, error) {
	names, err := readNames(d.path(dir))
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, name := range names {
		if checkName(name) != nil {
			continue
		}
		e := entry{name: name}
		err := ignoringEINTR(func() error { return unix.Stat(d.path(path.Join(dir, name)), &e.stat) })
		switch kind := e.stat.Mode & unix.S_IFMT; {
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP): // gone, or a link to nowhere
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "stat", Path: d.path(path.Join(dir, name)), Err: err}
		case kind == unix.S_IFDIR:
			e.dir = true
		case kind != unix.S_IFREG:
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key(), b.key()) })
	return entries, nil
}

func (e *entry) key() string {
	if e.dir {
		return e.name + "/"
	}
	return e.name
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	return names, err
}

// holds reports whether there is an object below a directory.
func (d *Directory) holds(dir string) (bool, error) {
	entries, err := d.entries(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !e.dir {
			return true, nil
		}
		if is, err := d.holds(path.Join(dir, e.name)); is || err != nil {
			return is, err
		}
	}
	return false, nil
}
