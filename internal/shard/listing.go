package shard

import (
	"container/heap"
	"context"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/prepare/pack"
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

// Root implements [Tree].
func (d Dataset) Root() (Entry, error) {
	f, err := d.Dataset.Root()
	e := entryOf(f)
	if _, is := d.Dir.(listed); is {
		e.Identity = store.Identity{}
	}
	return e, err
}

// Members implements [Tree].
func (d Dataset) Members(ctx context.Context, dir string, yield func(Entry, error) bool) bool {
	objects, _ := d.Dir.(listed)
	return d.Dataset.Members(ctx, dir, func(f store.SourceFile, err error) bool {
		e := entryOf(f)
		switch {
		case err != nil || objects == nil:
		case e.Kind == store.Dir:
			e.Identity = store.Identity{}
		default:
			var i blob.Info
			i, err = objects.Object(f.Path)
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
