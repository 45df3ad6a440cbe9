package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
)

// StoreTree is the tree of a store, as it is by the generation that the store shows.
func StoreTree(s *store.Store) source.Tree { return storeTree{s} }

type storeTree struct{ store *store.Store }

func (t storeTree) List(dir string) ([]source.Entry, error) {
	children, err := t.store.List(dir)
	if err != nil {
		return nil, notExist(err)
	}
	entries := make([]source.Entry, len(children))
	for i, c := range children {
		entries[i] = source.Entry{Name: c.Name, Dir: c.Kind == store.Dir}
	}
	return entries, nil
}

// Fresh is Stat: a store changes when it is told to.
func (t storeTree) Fresh(name string) (source.Attr, error) { return t.Stat(name) }

func (t storeTree) Stat(name string) (source.Attr, error) {
	// whoever mounts a store owns what it shows
	a := source.Attr{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if name == "" {
		a.Mode = fs.ModeDir | 0o555
		return a, nil
	}
	s, err := t.store.Lookup(name)
	if err != nil {
		return source.Attr{}, notExist(err)
	}
	a.Identity = source.IdentityOf(s.Source.Size, s.Source.Version)
	a.Mode = fs.FileMode(s.Mode).Perm()
	if s.Kind == store.Dir {
		a.Mode |= fs.ModeDir
	}
	return a, nil
}

// storedAs is an identity as a store keeps it.
func storedAs(id source.Identity) store.Identity {
	return store.Identity{Size: id.Size, Version: id.Version()}
}

// notExist turns the store's word for it into that of io/fs.
func notExist(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
