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
	producer *serve.Server
	fs       *fs.FS
	view     transcode.Pipeline
	opened   atomic.Uint64
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
	if v.producer, err = serve.New(o); err != nil {
		return nil, err
	}
	v.fs, err = fs.New(fs.Options{Registry: v.registry, Producer: fs.FromProduce(v.producer), Roles: c.roles, Log: quiet(env)})
	return v, err
}

func (v *viewer) close() {
	if v.producer != nil {
		v.producer.Close()
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
func (v *viewer) stat(path string) (source.Attr, error) { return v.producer.Stat(path) }

// size of the file in the view, exact.
func (v *viewer) size(ctx context.Context, f serve.File) (int64, error) {
	r, err := v.producer.Resolve(ctx, 0, f, v.view)
	return r.Size, err
}

// content is an open file of the view. It is read once: nothing is to be kept.
type content struct {
	*serve.Content
	close func()
}

func (v *viewer) open(ctx context.Context, f serve.File) (content, error) {
	key := v.opened.Add(1)
	c, err := v.producer.Open(ctx, key, f, v.view)
	if err != nil {
		return content{}, err
	}
	return content{c, func() {
		c.Release()
		v.producer.Drop(key)
	}}, nil
}
