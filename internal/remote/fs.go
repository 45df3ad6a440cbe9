// Package remote shows a place of sealed objects, such as a part of a bucket, as a file
// system that is only read: a store there is opened as one in a directory is.
//
// # Nouns
//
// An [FS] is the place as it was listed, when that was first needed; each object is read in the
// version of that listing. Where a file at its top was replaced since, such as CURRENT, the place is
// listed once more before that file is opened. Anything else that was replaced is an error: two stores
// are never mixed up.
//
// Packs are read by ranges, through a block cache if there is one; who says that it reads them from
// end to end gets long ranges, past the cache. Any other file is fetched as a whole when it is opened.
// Segments, which are read once, to make the index of this machine, and other long files are copied to
// temporary files. Short ones are read into memory, through the block cache.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

var scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`)

// Is reports whether what a user wrote is a URL, and no path.
func Is(s string) bool { return scheme.MatchString(s) }

// Options says how a place is read. The zero value keeps nothing.
type Options struct {
	// Cache keeps what was read of packs and of short files; nil keeps nothing.
	Cache *blockcache.Cache
	// Temp is the directory for temporary files; "" is that of the system.
	Temp string
	// Whole: packs will be read from the first byte to the last. They are then fetched in
	// long ranges, past the cache.
	Whole bool
	Log   *slog.Logger // nil is silent
}

// FS is a place of objects as a [vfs.FS] that is only read. The names of its files begin with
// the URL of the place. Errors are of class *fs.PathError.
type FS struct {
	root    string // the URL, without a slash at its end
	cleaned string // as filepath.Join makes it
	objects blob.Objects
	o       Options
	ctx     context.Context
	stop    context.CancelFunc
	held    io.Closer // keeps what is known of the place; nil if nobody does

	// fixed: it is listed once, whatever changes, because this process writes to it.
	fixed bool

	mu     sync.Mutex
	listed map[string]blob.Info // by name; nil until it is needed
}

// ErrReadOnly says that a store in a bucket is not changed file by file.
var ErrReadOnly = fmt.Errorf("%w: what is in a bucket is read only; pipefs pack adds to a store there", syscall.EROFS)

// New shows a place under its URL. Cancelling ctx ends all reads.
func New(ctx context.Context, url string, objects blob.Objects, o Options) *FS {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &FS{root: strings.TrimRight(url, "/"), objects: objects, o: o}
	f.cleaned = filepath.Clean(f.root)
	f.ctx, f.stop = context.WithCancel(ctx)
	return f
}

// Close ends all reads.
func (f *FS) Close() error {
	f.stop()
	if f.held == nil {
		return nil
	}
	return f.held.Close()
}

// Objects is the place itself.
func (f *FS) Objects() blob.Objects { return f.objects }

// name is that of an object.
func (f *FS) name(file string) string {
	rest, found := strings.CutPrefix(file, f.root)
	if !found {
		rest = strings.TrimPrefix(file, f.cleaned)
	}
	return strings.Trim(rest, "/")
}

func (f *FS) fail(op, name string, err error) error {
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	switch {
	case errors.Is(err, blob.ErrChanged) && f.fixed:
		err = fmt.Errorf("%w (%w)", ErrOtherWriter, err)
	case errors.Is(err, blob.ErrChanged):
		err = fmt.Errorf("%w since it was opened: mount it again, or run the command again", err)
	}
	of := &fs.PathError{Op: op, Path: f.root + "/" + name, Err: err}
	if strings.Contains(err.Error(), of.Path) {
		return named{of}
	}
	return of
}

// named is an error of which the cause says where.
type named struct{ *fs.PathError }

func (n named) Error() string { return n.Err.Error() }

// Unwrap has errors.As find the PathError.
func (n named) Unwrap() error { return n.PathError }

// formatName is the file that every store has. It is looked for before anything is listed:
// what is no store may have very many objects.
const formatName = "FORMAT"

// currentName is the file that is replaced when a store changes.
const currentName = "CURRENT"

// info describes an object.
func (f *FS) info(name string) (blob.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listed == nil && name == formatName {
		return f.objects.Stat(f.ctx, name)
	}
	if err := f.list(); err != nil {
		return blob.Info{}, err
	}
	i, ok := f.listed[name]
	if !ok {
		return blob.Info{}, fs.ErrNotExist
	}
	return i, nil
}

// list makes the listing, unless it is there. The caller holds mu.
func (f *FS) list() error {
	if f.listed != nil {
		return nil
	}
	listed, err := f.newList(f.ctx)
	if err != nil {
		return err
	}
	f.listed = listed
	return nil
}

func (f *FS) newList(ctx context.Context) (map[string]blob.Info, error) {
	listed := map[string]blob.Info{}
	for page, err := range f.objects.List(ctx, "", true) {
		if err != nil {
			return nil, err
		}
		for _, i := range page {
			if !i.Dir {
				listed[i.Name] = i
			}
		}
	}
	return listed, nil
}

// Renew lists the place again if the file that names what is current has changed, or always. What
// was listed stays where that fails.
func (f *FS) Renew(ctx context.Context, always bool) error {
	f.mu.Lock()
	was, known := f.listed[currentName]
	f.mu.Unlock()
	if known && !always {
		switch now, err := f.objects.Stat(ctx, currentName); {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return f.fail("stat", currentName, err)
		case err == nil && now.Version == was.Version:
			return nil
		}
	}
	listed, err := f.newList(ctx)
	if err != nil {
		return f.fail("list", "", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = listed
	return nil
}

// replaced reports whether an error of opening a file says that the listing is old. Then the
// place is listed once more when that is next needed.
func (f *FS) replaced(name string, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, there := f.listed[name]
	if f.fixed || !errors.Is(err, blob.ErrChanged) && !(there && errors.Is(err, fs.ErrNotExist)) {
		return false
	}
	f.listed = nil
	return true
}

// moves reports whether a file is one that writers replace, so that another version of it is
// as good: the generation that it names is opened after it.
func moves(name string) bool { return !strings.Contains(name, "/") }

// once reports whether a file is read once: the index of this machine is made of it.
func once(name string) bool { return strings.HasSuffix(name, ".segment") }

// isPack reports whether a file is read by ranges.
func isPack(name string) bool { return strings.HasSuffix(name, ".pack") }

// Open implements [vfs.FS].
func (f *FS) Open(file string) (vfs.File, error) {
	name := f.name(file)
	for tries := 0; ; tries++ {
		opened, err := f.open(name)
		if err == nil || !f.replaced(name, err) || !moves(name) || tries == 3 {
			return opened, f.fail("open", name, err)
		}
	}
}

func (f *FS) open(name string) (vfs.File, error) {
	i, err := f.info(name)
	if err != nil {
		return nil, err
	}
	switch {
	case once(name), !isPack(name) && i.Size > smallFile:
		return f.fetch(i)
	case !isPack(name):
		return f.load(i)
	case f.o.Whole:
		return &stream{entry: entry{f, i}}, nil
	}
	if f.o.Cache == nil {
		return &direct{entry{f, i}}, nil
	}
	return &ranged{entry{f, i}, f.o.Cache.Object(f.objects, i)}, nil
}

// Size implements [vfs.FS].
func (f *FS) Size(file string) (int64, error) {
	name := f.name(file)
	i, err := f.info(name)
	return i.Size, f.fail("stat", name, err)
}

// List implements [vfs.FS].
func (f *FS) List(dir string) ([]string, error) {
	name := f.name(dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.list(); err != nil {
		return nil, f.fail("list", name, err)
	}
	prefix := name + "/"
	if name == "" {
		prefix = ""
	}
	var names []string
	for n := range f.listed {
		if rest, below := strings.CutPrefix(n, prefix); below {
			member, _, _ := strings.Cut(rest, "/")
			names = append(names, member)
		}
	}
	if names == nil {
		return nil, f.fail("list", name, fs.ErrNotExist)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (f *FS) refuse(op, file string) error { return f.fail(op, f.name(file), ErrReadOnly) }

// Create implements [vfs.FS].
func (f *FS) Create(file string) (vfs.File, error) { return nil, f.refuse("create", file) }

// OpenWrite implements [vfs.FS].
func (f *FS) OpenWrite(file string) (vfs.File, error) { return nil, f.refuse("write", file) }

// MkdirAll implements [vfs.FS].
func (f *FS) MkdirAll(dir string) error { return f.refuse("mkdir", dir) }

// Rename implements [vfs.FS].
func (f *FS) Rename(from, _ string) error { return f.refuse("rename", from) }

// Remove implements [vfs.FS].
func (f *FS) Remove(file string) error { return f.refuse("remove", file) }

// RemoveAll implements [vfs.FS].
func (f *FS) RemoveAll(file string) error { return f.refuse("remove", file) }

// SyncDir implements [vfs.FS].
func (f *FS) SyncDir(dir string) error { return f.refuse("sync", dir) }

// Lock implements [vfs.FS].
func (f *FS) Lock(file string) (io.Closer, error) { return nil, f.refuse("lock", file) }

// entry is an object that is open; all that would change it is refused.
type entry struct {
	fs   *FS
	info blob.Info
}

// Size implements [vfs.File].
func (e entry) Size() (int64, error) { return e.info.Size, nil }

// WriteAt implements [io.WriterAt].
func (e entry) WriteAt([]byte, int64) (int, error) {
	return 0, e.fs.fail("write", e.info.Name, ErrReadOnly)
}

// Truncate implements [vfs.File].
func (e entry) Truncate(int64) error { return e.fs.fail("truncate", e.info.Name, ErrReadOnly) }

// Sync implements [vfs.File].
func (e entry) Sync() error { return nil }

// Close implements [io.Closer].
func (e entry) Close() error { return nil }

// direct is a pack of which nothing is kept.
type direct struct{ entry }

// ReadAt implements [io.ReaderAt].
func (d *direct) ReadAt(b []byte, off int64) (int, error) {
	if off >= d.info.Size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), d.info.Size-off))
	if err := d.fs.objects.ReadAt(d.fs.ctx, d.info.Name, d.info.Version, b[:n], off); err != nil {
		return 0, d.fs.fail("read", d.info.Name, err)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// ranged is a pack that is read through the block cache.
type ranged struct {
	entry
	object *blockcache.Object
}

// ReadAt implements [io.ReaderAt].
func (r *ranged) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.object.ReadAt(b, off)
	return n, r.fs.fail("read", r.info.Name, err)
}

// Scattered implements [vfs.Advised].
func (r *ranged) Scattered() { r.object.Scattered() }

// Fetch implements [vfs.Advised].
func (r *ranged) Fetch(off, n int64) { r.object.Fetch(off, n) }

// Ahead implements [vfs.Advised]: a piece is worth a request.
func (r *ranged) Ahead() (window, piece int64) { return 64 << 20, 4 << 20 }

// Forget implements [vfs.Kept].
func (r *ranged) Forget(off, n int64) { r.object.Forget(off, n) }
