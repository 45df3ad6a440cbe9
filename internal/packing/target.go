package packing

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
)

// BuildBytes is what packs take on this machine until they are put.
const BuildBytes = 1.5e9

// maxConflicts is how often a change is begun anew because another machine wrote first.
const maxConflicts = 3

// Target is a store that is written to.
type Target struct {
	Store    string // absolute path, or a URL
	Remote   remote.Access
	BuildDir string // of a URL; "" is one in the cache directory of the user
	Log      *slog.Logger
	// LowSpace is told where BuildDir has less room than BuildBytes; nil is not.
	LowSpace func(free int64)

	held io.Closer // keeps BuildDir until the process ends
}

// Writer has the files of a store that is written to.
type Writer struct {
	FS    vfs.FS
	base  vfs.FS // where nothing is written to
	build *remote.Build
	close func() error
}

// Open begins to write.
func (t *Target) Open(ctx context.Context) (*Writer, error) {
	if !remote.Is(t.Store) {
		return &Writer{FS: vfs.OS, base: vfs.OS, close: func() error { return nil }}, nil
	}
	if err := t.HoldBuildDir(); err != nil {
		return nil, err
	}
	files, err := mountd.WithCacheDir(t.Remote).Open(ctx, t.Store, remote.Options{Log: t.Log})
	if err != nil {
		return nil, err
	}
	build, err := files.Build(t.BuildDir)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	if free, err := cachedir.Free(t.BuildDir); err == nil && free < BuildBytes && t.LowSpace != nil {
		t.LowSpace(free)
	}
	return &Writer{FS: build, base: build.FS, build: build, close: files.Close}, nil
}

// Finish waits until all that was written is in its place.
func (w *Writer) Finish() (remote.Sent, error) {
	if w.build == nil {
		return remote.Sent{}, nil
	}
	return w.build.Finish()
}

// Close ends writing.
func (w *Writer) Close() error { return w.close() }

// HoldBuildDir chooses where packs are until they are put, if BuildDir is empty. A directory that is known
// of the store is held until the process ends.
func (t *Target) HoldBuildDir() error {
	if t.BuildDir != "" {
		return nil
	}
	root, err := mountd.CacheRoot()
	if err != nil {
		return err
	}
	a := remote.Access{Dir: root.Dir()}
	t.BuildDir, t.held = a.Unput(t.Store), a.Hold(t.Store, t.Log)
	return nil
}

// Change calls change with the files of the store, again if another machine was first. flush waits
// until all that was written is in its place; nil: it is at once.
func (t *Target) Change(ctx context.Context, change func(files vfs.FS, flush func() error) error) error {
	if !remote.Is(t.Store) {
		return change(vfs.OS, nil)
	}
	for tries := 0; ; tries++ {
		w, err := t.Open(ctx)
		if err != nil {
			return err
		}
		err = change(w.FS, func() error { _, err := w.Finish(); return err })
		if _, failed := w.Finish(); err == nil {
			err = failed
		}
		_ = w.Close()
		if !errors.Is(err, vfs.ErrConflict) || tries == maxConflicts {
			return err
		}
	}
}

// IndexDir is where the index of the store is; "" is in the store.
func (t *Target) IndexDir() string { return mountd.IndexDir(t.Remote, t.Store) }

// OpenStore opens the store to be read; it is nil if there is none yet. What it returns ends that. A
// place that cannot become a store is an error.
func (t *Target) OpenStore(ctx context.Context) (*store.Store, func(), error) {
	files, done, err := mountd.OpenFiles(ctx, t.Remote, t.Store, remote.Options{Log: t.Log})
	if err != nil {
		return nil, nil, err
	}
	is, err := store.IsIn(files, t.Store)
	if err == nil && !is {
		err = store.MayUse(files, t.Store)
	}
	err = usage.With(err)
	var s *store.Store
	if err == nil && is {
		s, err = store.Open(t.Store, store.Options{Logger: t.Log, FS: files, IndexDir: t.IndexDir()})
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return s, func() {
		if s != nil {
			_ = s.Close()
		}
		done()
	}, nil
}
