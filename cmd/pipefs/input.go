package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	pfs "github.com/pipefs/pipefs/fs"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/typo"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// opening says what to open, and how files are made of it.
type opening struct {
	path    string
	remote  remote.Access // of a URL
	store   bool          // nothing but a store will do
	dataset string        // of the store, or empty
	roles   transcode.Roles
	limits  transcode.Limits
	workers int // that make files at once; 0 is one a core
	most    int // directories that are walked; 0 is all
	// registry makes files; nil makes them as the store has them.
	registry *transcode.Registry
}

// input is a dataset or a store, opened to be looked at, and to make files of without any
// mount.
type input struct {
	path     string         // absolute, or a URL
	dataset  source.Dataset // the dataset, or that of the store, or nil
	store    *store.Store   // nil for a dataset
	tree     source.Tree
	registry *transcode.Registry
	server   *serve.Server
	most     int // of opening
	resolved atomic.Uint64
	done     func() // ends reading from a URL
}

// open opens whichever of the two is at a path or URL. Cancelling ctx ends all reads from a URL.
func (o opening) open(ctx context.Context, env *environ) (_ *input, err error) {
	s := &input{registry: o.registry, most: o.most, done: func() {}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.path, err = placeOf(o.path); err != nil {
		return nil, err
	}
	if err := statSource(s.path); err != nil {
		return nil, exit.With(exit.System, err)
	}
	files, done, err := filesOf(ctx, o.remote, s.path, remote.Options{Log: quiet(env)})
	if err != nil {
		return nil, err
	}
	s.done = done
	s.store, err = store.Open(s.path, store.Options{Logger: quiet(env), FS: files, IndexDir: indexOf(o.remote, s.path)})
	from := o.dataset
	switch is := err == nil; {
	case !is && !errors.Is(err, store.ErrNotStore):
		return nil, fmt.Errorf("store %s: %w", s.path, err)
	case !is && o.store:
		return nil, exit.Errorf(exit.Usage, "%s is no store; pipefs pack makes one of a dataset: pipefs pack DATASET STORE", s.path)
	case !is && o.dataset != "":
		return nil, exit.Errorf(exit.Usage, "--dataset goes with a store, and %s is none: leave it out", s.path)
	case is:
		s.tree = serve.StoreTree(s.store)
	default:
		s.store, from = nil, s.path
	}
	if from != "" {
		if s.dataset, err = openDataset(ctx, env, o.remote, from, source.Options{Names: min(o.most*firstNames, firstNames)}, listedLately); err != nil {
			return nil, err
		}
	}
	if s.store == nil {
		s.tree = s.dataset
	}
	if s.registry == nil {
		s.registry = mountd.Registry(o.limits, s.store, nil)
	}
	if o.most == 0 {
		if err := s.checkRoles(o.roles); err != nil {
			return nil, err
		}
	}
	s.server, err = serve.New(serve.Options{
		Registry: s.registry, Roles: o.roles, Source: s.tree, Dataset: s.dataset, Store: s.store, Workers: o.workers, Log: quiet(env),
	})
	return s, err
}

func (s *input) close() {
	if s.server != nil {
		s.server.Close()
	}
	if s.store != nil {
		s.store.Close()
	}
	if s.dataset != nil {
		s.dataset.Close()
	}
	s.done()
}

// files are the names that views list.
func (s *input) files(env *environ, roles transcode.Roles) (*pfs.FS, error) {
	return pfs.New(pfs.Options{Registry: s.registry, Server: pfs.Serve(s.server), Roles: roles, Log: quiet(env)})
}

// resolve decides how a view shows a file. It may make it to know its size.
func (s *input) resolve(ctx context.Context, f serve.File, v transcode.Pipeline) (*serve.Handle, error) {
	return s.server.Resolve(ctx, s.resolved.Add(1), f, v, serve.Sized)
}

// openOnce opens a file that is read once: nothing of it is to be kept. done gives it back.
func openOnce(ctx context.Context, h *serve.Handle) (c *serve.Content, done func(), err error) {
	if c, err = h.Open(ctx); err != nil {
		return nil, nil, err
	}
	return c, func() {
		c.Release()
		h.Drop()
	}, nil
}

// statSource says what is wrong with a path that is to be a dataset or a store. What is wrong
// with a URL is told by who opens it.
func statSource(path string) error {
	if remote.Is(path) {
		return nil
	}
	info, err := mounts.Stat(path)
	if err == nil {
		err = mounts.Probe(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no dataset or store at %s%s", path, semicolon(typo.Question(neighbours(path))))
	case mounts.Dead(err):
		how := "umount -l " + path
		if abs, err := filepath.Abs(path); err == nil {
			if m, err := mounts.Holding(abs); err == nil && m != nil && m.Ours() {
				how = "pipefs umount " + m.Mountpoint
			}
		}
		return fmt.Errorf("%s lies in a mount whose daemon is gone; unmount that first: %s", path, how)
	case err != nil:
		return fmt.Errorf("dataset or store: %w", err)
	case !info.IsDir():
		return source.NotDirectory(path, shellWord(path))
	}
	return nil
}

// gaps are those of the usual views, and others.
func (s *input) gaps(others ...string) (*mountd.Gaps, error) {
	return mountd.FindGaps(s.server, s.registry, mountd.Unique(append(mountd.UsualViews(s.registry), others...)))
}

// rebuildCost is measured, see docs/benchmarks.md.
const rebuildCost = "about 2 to 3 ms of CPU each (photographs of 110 kB)"

// rebuilt says how many originals a mount of the store rebuilds, what that costs and what
// helps; "" where it rebuilds none.
func (s *input) rebuilt() (string, error) {
	n, err := s.server.Rebuilt()
	if err != nil || n == 0 {
		return "", err
	}
	if !remote.Is(s.path) {
		if d := mountd.OpenNearby(s.store, s.path, source.Options{}); d != nil {
			return "", d.Close()
		}
	}
	return fmt.Sprintf("original/ rebuilds %s from scans when they are first read, at %s; --dataset DIR reads the files instead, and so does a store packed with --originals keep",
		plural(n, "JPEG file", "JPEG files"), rebuildCost), nil
}
