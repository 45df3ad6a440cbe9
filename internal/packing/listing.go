package packing

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
)

// Tree is what a plan is made of.
type Tree interface {
	// Root is the entry of the dataset itself.
	Root() (Entry, error)
	// Members yields the entries of a directory by the bytes of their names, and reports whether yield
	// always returned true. An error that comes with a path is about that path alone; what comes with
	// none ends the planning.
	Members(ctx context.Context, dir string, yield func(Entry, error) bool) bool
}

// Dataset is the tree of a dataset that is packed as pack says.
type Dataset struct{ pack.Dataset }

// listed is what a dataset in a bucket says of its objects. Its directories are the names before a slash;
// they have the time of the listing, which a plan must not have.
type listed interface {
	Object(name string) (blob.Info, error)
}

// places returns the files of a list of classes, and the objects of a bucket, where the dataset has them.
func (d Dataset) places() (classes *source.Classes, objects listed) {
	in := d.Dir
	if classes, _ = in.(*source.Classes); classes != nil {
		in = classes.Dataset
	}
	objects, _ = in.(listed)
	return classes, objects
}

// Root implements [Tree].
func (d Dataset) Root() (Entry, error) {
	f, err := d.Dataset.Root()
	e := entryOf(f)
	if _, objects := d.places(); objects != nil {
		e.Identity = store.Identity{}
	}
	return e, err
}

// Members implements [Tree].
func (d Dataset) Members(ctx context.Context, dir string, yield func(Entry, error) bool) bool {
	classes, objects := d.places()
	return d.Dataset.Members(ctx, dir, func(f store.SourceFile, err error) bool {
		e := entryOf(f)
		if classes != nil && err == nil && e.Kind == store.File {
			e.From = classes.Moved(f.Path)
		}
		switch {
		case err != nil || objects == nil:
		case e.Kind == store.Dir:
			e.Identity = store.Identity{}
		default:
			var i blob.Info
			i, err = objects.Object(e.in())
			e.Version = i.Version
		}
		return yield(e, err)
	})
}

func entryOf(f store.SourceFile) Entry {
	return Entry{Path: f.Path, Kind: f.Kind, Mode: f.Mode & 0o7777, Identity: f.Identity}
}

// inOrder yields all entries of a tree in the order of a store's index: by directory, then by name. It
// holds the directories that it has met and not listed yet.
func inOrder(ctx context.Context, t Tree, yield func(Entry, error) bool) {
	root, err := t.Root()
	if !yield(root, err) || err != nil {
		return
	}
	dirs := &paths{""}
	for dirs.Len() > 0 && ctx.Err() == nil {
		whole := t.Members(ctx, heap.Pop(dirs).(string), func(e Entry, err error) bool {
			if err == nil && e.Kind == store.Dir {
				heap.Push(dirs, e.Path)
			}
			return yield(e, err)
		})
		if !whole {
			return
		}
	}
	if err := ctx.Err(); err != nil {
		yield(Entry{}, err)
	}
}

// paths is a heap of paths.
type paths []string

func (p paths) Len() int           { return len(p) }
func (p paths) Less(i, j int) bool { return p[i] < p[j] }
func (p paths) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *paths) Push(x any)        { *p = append(*p, x.(string)) }
func (p *paths) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}

func comparePaths(a, b string) int { return store.ComparePaths(a, b) }

// below reports whether a path is one of some directories, or in one.
func below(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		rest, is := strings.CutPrefix(path, dir)
		return is && (rest == "" || rest[0] == '/')
	})
}

// Entry is what is to be packed: a file, a directory, or a tombstone of what is gone.
type Entry struct {
	Path     string
	Kind     store.Kind
	Mode     uint32
	Identity store.Identity
	// Version is that of the object, where the dataset is in a bucket.
	Version blob.Version
	// From is the path of the file in the dataset, where a list of classes gives it another; else it is empty.
	From string
}

// in is the path of a file in the dataset.
func (e *Entry) in() string { return cmp.Or(e.From, e.Path) }

// moved is a bit of the kind of an entry that says where its file is in the dataset.
const moved = 0x80

// appendEntry appends an entry. What its path has in common with the one before is left out.
func appendEntry(b []byte, e *Entry, before string) []byte {
	same := 0
	for same < min(len(e.Path), len(before)) && e.Path[same] == before[same] {
		same++
	}
	b = binary.AppendUvarint(b, uint64(same))
	b = binary.AppendUvarint(b, uint64(len(e.Path)-same))
	b = append(b, e.Path[same:]...)
	kind := byte(e.Kind)
	if e.From != "" {
		kind |= moved
	}
	b = append(b, kind)
	if e.Kind == store.Tombstone {
		return b
	}
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendUvarint(b, uint64(e.Identity.Size))
	b = append(b, e.Identity.Version[:]...)
	b = binary.AppendUvarint(b, uint64(len(e.Version)))
	b = append(b, e.Version...)
	if e.From != "" {
		b = append(binary.AppendUvarint(b, uint64(len(e.From))), e.From...)
	}
	return b
}

const (
	maxPath    = 4096
	maxVersion = 1024
)

var errEntry = errors.New("an entry ends too early, or is over the limits")

// cutEntry reads what appendEntry wrote, and returns what follows.
func cutEntry(b []byte, before string) (e Entry, rest []byte, err error) {
	ok := true
	number := func(limit uint64) uint64 {
		n, k := binary.Uvarint(b)
		if ok = ok && k > 0 && n <= limit; !ok {
			return 0
		}
		b = b[k:]
		return n
	}
	take := func(n uint64) []byte {
		if ok = ok && n <= uint64(len(b)); !ok {
			return nil
		}
		t := b[:n]
		b = b[n:]
		return t
	}
	same := number(uint64(len(before)))
	e.Path = before[:same] + string(take(number(maxPath)))
	from := false
	if k := take(1); ok {
		from = k[0] == moved|byte(store.File)
		if e.Kind = store.Kind(k[0]); from {
			e.Kind = store.File
		}
	}
	if e.Kind != store.Tombstone {
		e.Mode = uint32(number(0o7777))
		e.Identity.Size = int64(number(1 << 62))
		copy(e.Identity.Version[:], take(uint64(len(e.Identity.Version))))
		e.Version = blob.Version(take(number(maxVersion)))
	}
	if from {
		if e.From = string(take(number(maxPath))); ok && store.CheckEntry(e.From, e.Kind) != nil {
			ok = false
		}
	}
	if !ok {
		return Entry{}, nil, errEntry
	}
	return e, b, store.CheckEntry(e.Path, e.Kind)
}

// EachEntry calls f with the entries of a shard, whose block it gets. It ends at the first error.
func (p *Plan) EachEntry(r Row, block []byte, f func(seq int64, e Entry) error) error {
	before := ""
	for i := range r.Entries {
		e, rest, err := cutEntry(block, before)
		if err != nil {
			return p.broken("entry %d: %w", r.First+i, err)
		}
		if err := f(p.FirstSeq+r.First+i, e); err != nil {
			return err
		}
		block, before = rest, e.Path
	}
	if len(block) > 0 {
		return p.broken("%d bytes behind entry %d", len(block), r.First+r.Entries)
	}
	return nil
}

// elsewhere reads files that a list of classes gives another path.
type elsewhere struct {
	store.ShardSource
	from map[string]string // where they are in the dataset
}

func (s elsewhere) in(f store.SourceFile) store.SourceFile {
	f.Path = cmp.Or(s.from[f.Path], f.Path)
	return f
}

// Read implements [store.ShardSource].
func (s elsewhere) Read(ctx context.Context, f store.SourceFile) ([]byte, error) {
	return s.ShardSource.Read(ctx, s.in(f))
}

// Copy implements [store.ShardSource].
func (s elsewhere) Copy(ctx context.Context, f store.SourceFile, w io.Writer) error {
	return s.ShardSource.Copy(ctx, s.in(f), w)
}

// directory reads planned files from a directory. Another machine may have a copy of what was planned, with
// other inodes and ctimes: a file is the one that was planned if it has that size and mtime.
type directory struct{ pack.Dataset }

// InDirectory is the source of a shard whose dataset is in a directory.
func InDirectory(d pack.Dataset) store.ShardSource { return directory{d} }

func isPlanned(is, planned store.Identity) bool {
	mtime := func(i store.Identity) int64 { return source.IdentityOf(i.Size, i.Version).MTime }
	return is.Size == planned.Size && mtime(is) == mtime(planned)
}

// Read implements [store.ShardSource].
func (d directory) Read(ctx context.Context, f store.SourceFile) ([]byte, error) {
	data, is, err := d.Dataset.Read(ctx, f.Path)
	return data, d.check(f, is, err)
}

// Copy implements [store.ShardSource].
func (d directory) Copy(ctx context.Context, f store.SourceFile, w io.Writer) error {
	is, err := d.Dataset.Copy(ctx, f.Path, w)
	return d.check(f, is, err)
}

func (d directory) check(f store.SourceFile, is store.Identity, err error) error {
	switch {
	case errors.Is(err, source.ErrChanged), err == nil && !isPlanned(is, f.Identity):
		return fmt.Errorf("%s: %w", f.Path, store.ErrChanged)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP): // what was a directory is a file now
		return fmt.Errorf("%s: %w", f.Path, fs.ErrNotExist)
	}
	return err
}

// objects reads planned files from a place of objects, without listing it.
type objects struct {
	place    blob.Objects
	versions map[string]blob.Version // by name
}

// Read implements [store.ShardSource].
func (o objects) Read(ctx context.Context, f store.SourceFile) ([]byte, error) {
	data := make([]byte, f.Identity.Size)
	return data, o.read(ctx, f, data, 0)
}

// Copy implements [store.ShardSource].
func (o objects) Copy(ctx context.Context, f store.SourceFile, w io.Writer) error {
	if f.Identity.Size == 0 {
		return o.read(ctx, f, nil, 0)
	}
	buf := make([]byte, min(f.Identity.Size, copyBytes))
	for off := int64(0); off < f.Identity.Size; off += copyBytes {
		b := buf[:min(copyBytes, f.Identity.Size-off)]
		if err := o.read(ctx, f, b, off); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// copyBytes is how much of a long object is read at once.
const copyBytes = 4 << 20

func (o objects) read(ctx context.Context, f store.SourceFile, b []byte, off int64) error {
	version := o.versions[f.Path]
	if len(b) == 0 {
		i, err := o.place.Stat(ctx, f.Path)
		if err == nil && i.Version != version {
			err = fmt.Errorf("%s: %w", f.Path, store.ErrChanged)
		}
		return err
	}
	err := o.place.ReadAt(ctx, f.Path, version, b, off)
	if errors.Is(err, blob.ErrChanged) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", f.Path, store.ErrChanged)
	}
	return err
}
