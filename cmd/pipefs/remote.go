package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
)

// placeOf makes what a user wrote absolute: a path, or a URL, which stays as it is.
func placeOf(arg string) (string, error) {
	if !remote.Is(arg) {
		return filepath.Abs(arg)
	}
	url, err := remote.Check(arg)
	return url, exit.With(exit.Usage, err)
}

// remoteOptions say how a URL is reached.
func remoteOptions(a *remote.Access) []*option { return bucketOptions(&a.Blob) }

// withCopies is how a command reaches a URL that keeps no blocks of what it reads.
func withCopies(a remote.Access) remote.Access {
	if a.Dir != "" {
		return a
	}
	if root, err := mountd.CacheRoot(); err == nil {
		a.Dir = root.Dir()
	}
	return a
}

// filesOf is the file system that a place lies in, and what ends reading from it.
func filesOf(ctx context.Context, a remote.Access, place string, o remote.Options) (vfs.FS, func(), error) {
	if !remote.Is(place) {
		return vfs.OS, func() {}, nil
	}
	files, err := withCopies(a).Open(ctx, place, o)
	if err != nil {
		return nil, nil, bucketError(err)
	}
	return files, func() { _ = files.Close() }, nil
}

// indexOf is where the index of a store is; "" is in the store.
func indexOf(a remote.Access, place string) string {
	if !remote.Is(place) {
		return ""
	}
	return withCopies(a).Index(place)
}

// isStore reports whether there is a store at a path or a URL.
func isStore(ctx context.Context, a remote.Access, place string) (bool, error) {
	files, done, err := filesOf(ctx, a, place, remote.Options{})
	if err != nil {
		return false, err
	}
	defer done()
	return store.IsIn(files, place)
}

// errWritten refuses to change a store in a bucket.
func errWritten(what, place, instead string) error {
	return exit.Errorf(exit.Usage, "%s writes into the store, and %s is not on this machine; %s", what, place, instead)
}

var errNoURL = errors.New("takes a path of this machine, and no URL")
