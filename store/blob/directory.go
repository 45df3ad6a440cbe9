package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Directory keeps objects in a directory and below it, one file each. Symbolic links are
// followed; what is neither a regular file nor a directory is no object.
//
// A file is written under a name of its own, flushed, and renamed. What a crash leaves unfinished
// is not listed, and goes away a day later.
type Directory struct {
	root      string
	collected sync.Map // directories that were looked through for what crashes left
}

var _ Objects = (*Directory)(nil)

// OpenDirectory returns the place at a path. If there is nothing at the path, it has no objects,
// and the first put makes the directory.
func OpenDirectory(path string) (*Directory, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", root)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &Directory{root: root}, nil
}

// String is the path.
func (d *Directory) String() string { return d.root }

func (d *Directory) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// openObject opens the file of an object. It waits for nothing, whatever is there.
func (d *Directory) openObject(name string) (*os.File, Info, error) {
	if err := checkName(name); err != nil {
		return nil, Info{}, err
	}
	f, err := os.OpenFile(d.path(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENXIO) { // a file for a directory, or a socket
		err = &fs.PathError{Op: "open", Path: d.path(name), Err: unix.ENOENT}
	}
	if err != nil {
		return nil, Info{}, err
	}
	i, err := statObject(f, name)
	if err != nil {
		_ = f.Close()
		return nil, Info{}, err
	}
	return f, i, nil
}

// statObject returns what is known of an open file. What is not regular is not there.
func statObject(f *os.File, name string) (Info, error) {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return Info{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Info{}, &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrNotExist}
	}
	return infoOf(&st, name), nil
}

func infoOf(st *unix.Stat_t, name string) Info {
	return Info{
		Name: name, Size: st.Size, Modified: time.Unix(st.Mtim.Unix()),
		Version: Version(fmt.Sprintf("%x-%x-%x-%x", st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())),
	}
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Stat implements [Objects].
func (d *Directory) Stat(ctx context.Context, name string) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	f, i, err := d.openObject(name)
	if err != nil {
		return Info{}, err
	}
	return i, f.Close()
}

// ReadAt implements [Objects]. The file is compared with the version before and after it is read.
func (d *Directory) ReadAt(ctx context.Context, name string, v Version, b []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, i, err := d.openObject(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if i.Version != v {
		return fmt.Errorf("%s: %w", f.Name(), ErrChanged)
	}
	n, err := f.ReadAt(b, off)
	switch after, statErr := statObject(f, name); {
	case statErr != nil:
		return statErr
	case after.Version != v:
		return fmt.Errorf("%s: %w", f.Name(), ErrChanged)
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", f.Name(), io.ErrUnexpectedEOF)
	}
	return err
}

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
