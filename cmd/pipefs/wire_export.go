package main

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// viewer is one view of a dataset or store, read without any mount.
type viewer struct {
	source   *input
	registry *transcode.Registry
	dataset  *source.Directory // of --dataset
	server   *serve.Server
	fs       *fs.FS
	view     transcode.Pipeline
	resolved atomic.Uint64
}

func openViewer(env *environ, c *exportConfig, registry func(*input) *transcode.Registry) (_ *viewer, err error) {
	v := &viewer{}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if v.source, err = openSource(env, c.source); err != nil {
		return nil, err
	}
	v.registry = registry(v.source)
	if v.view, err = v.registry.Parse(c.view); err != nil {
		return nil, err
	}
	if err = v.source.checkRoles(v.registry, c.roles); err != nil {
		return nil, err
	}
	o := serve.Options{
		Registry: v.registry, Roles: c.roles, Source: v.source.tree, Dataset: v.source.dataset, Store: v.source.store,
		Workers: c.workers, Log: quiet(env),
	}
	if c.dataset != "" {
		if v.source.store == nil {
			return nil, exit.Errorf(exit.Usage, "--dataset goes with a store, and %s is none: leave it out", c.source)
		}
		if v.dataset, err = source.Open(c.dataset, source.Options{}); err != nil {
			return nil, err
		}
		o.Dataset = v.dataset
	}
	if v.server, err = serve.New(o); err != nil {
		return nil, err
	}
	v.fs, err = fs.New(fs.Options{Registry: v.registry, Server: fs.Serve(v.server), Roles: c.roles, Log: quiet(env)})
	return v, err
}

func (v *viewer) close() {
	if v.server != nil {
		v.server.Close()
	}
	if v.dataset != nil {
		v.dataset.Close()
	}
	if v.source != nil {
		v.source.close()
	}
}

// walk yields what a mount would list.
func (v *viewer) walk() (iter.Seq2[fs.Member, error], error) { return v.fs.Walk(v.view) }

// original reports whether the view is the dataset as it is.
func (v *viewer) original() bool { return v.view.Len() == 0 }

// stat returns the attributes that the file has in the dataset.
func (v *viewer) stat(path string) (source.Attr, error) { return v.server.Stat(path, false) }

// resolve decides how a file is shown. It may make it to know its size.
func (v *viewer) resolve(ctx context.Context, f serve.File) (*serve.Handle, error) {
	return v.server.Resolve(ctx, v.resolved.Add(1), f, v.view, serve.Sized)
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
