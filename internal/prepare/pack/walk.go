package pack

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"runtime"
	"sync"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
)

// Walk implements [store.Source]: all files and directories, by name, a directory before what is in
// it. The directories that come next are read meanwhile.
func (d Dataset) Walk(ctx context.Context) iter.Seq2[store.SourceFile, error] {
	return func(yield func(store.SourceFile, error) bool) {
		w := walker{Dataset: d, ctx: ctx}
		defer w.reading.Wait() // who reads uses the dataset, which may be closed then
		if root, err := d.Root(); yield(root, err) && err == nil {
			w.walk(w.list(""), true, yield)
		}
	}
}

// Members yields the files and directories in a directory, by name, and reports whether yield always
// returned true. An error that comes with a path is about that path alone.
func (d Dataset) Members(ctx context.Context, dir string, yield func(store.SourceFile, error) bool) bool {
	w := walker{Dataset: d, ctx: ctx}
	defer w.reading.Wait()
	return w.walk(w.list(dir), false, yield)
}

// walker is one walk over a dataset.
type walker struct {
	Dataset
	ctx     context.Context
	reading sync.WaitGroup
}

// listing is a directory that was read, and the attributes of the first of its members.
type listing struct {
	dir     string
	err     error
	members []source.Entry
	first   []file
}

type file struct {
	store.SourceFile
	err error
}

// pageFiles is of how many members the attributes are read at once.
const pageFiles = 1024

func (w *walker) list(dir string) listing {
	l := listing{dir: dir}
	if l.members, l.err = w.Dir.List(dir); l.err == nil {
		l.first = w.page(l, 0)
	}
	return l
}

// page reads the attributes of some members. Those that are gone since they were listed are left out.
func (w *walker) page(l listing, n int) []file {
	if w.ctx.Err() != nil {
		return nil
	}
	members := l.members[n*pageFiles : min(len(l.members), (n+1)*pageFiles)]
	files := make([]file, 0, len(members))
	attrs, errs := source.Stats(w.Dir, l.dir, members)
	for i, e := range members {
		switch name, err := path.Join(l.dir, e.Name), errs[i]; {
		case err == nil:
			files = append(files, file{w.sourceFile(name, attrs[i]), nil})
		case !errors.Is(err, fs.ErrNotExist):
			files = append(files, file{store.SourceFile{Path: name, Kind: store.File}, err})
		}
	}
	return files
}

// walk yields what is in a directory, and where all is wanted in those below it.
func (w *walker) walk(l listing, all bool, yield func(store.SourceFile, error) bool) bool {
	if l.err != nil {
		return yield(store.SourceFile{Path: l.dir, Kind: store.Dir}, l.err)
	}
	pages := (len(l.members) + pageFiles - 1) / pageFiles
	next := ahead(&w.reading, pages-1, func(i int) []file { return w.page(l, i+1) })
	for n, files := 0, l.first; n < pages; n++ {
		if n > 0 {
			files = next()
		}
		var dirs []string
		for i := range files {
			if f := &files[i]; all && f.err == nil && f.Kind == store.Dir {
				dirs = append(dirs, f.Path)
			}
		}
		below := ahead(&w.reading, len(dirs), func(i int) listing { return w.list(dirs[i]) })
		for i := range files {
			f := &files[i]
			if err := w.ctx.Err(); err != nil {
				yield(store.SourceFile{}, err)
				return false
			}
			if !yield(f.SourceFile, f.err) || all && f.err == nil && f.Kind == store.Dir && !w.walk(below(), all, yield) {
				return false
			}
		}
	}
	if err := w.ctx.Err(); err != nil { // a page may lack files
		yield(store.SourceFile{}, err)
		return false
	}
	return true
}

// ahead returns a function that returns what f returns for each number from 0 on, below n. Some of
// them are called ahead.
func ahead[T any](running *sync.WaitGroup, n int, f func(int) T) (next func() T) {
	var made []chan T
	begun := 0
	return func() T {
		for ; begun < n && len(made) <= runtime.GOMAXPROCS(0); begun++ {
			c, i := make(chan T, 1), begun
			running.Go(func() { c <- f(i) })
			made = append(made, c)
		}
		c := made[0]
		made = made[1:]
		return <-c
	}
}
