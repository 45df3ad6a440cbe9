package main

import (
	"context"
	"io"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// packStore puts a dataset into a store.
func packStore(ctx context.Context, c *packConfig, d *source.Directory, w *packing) (store.Report, error) {
	r := packRegistry(c, w)
	what := pack.Dataset{
		Registry:  r,
		Dir:       d,
		Originals: pack.Originals(c.originals),
		Log:       quiet(w.env),
	}
	for _, k := range r.Kinds() {
		if k.Name == c.represent {
			what.Represent = k
		}
	}
	return store.Pack(ctx, c.store, counted{what, w}, what, store.PackOptions{
		RecordImages: c.recordImages,
		Order:        store.Order(c.order),
		Seed:         uint64(max(c.seed, 0)),
		Workers:      c.workers,
		DatasetPath:  c.dataset,
		Progress:     w.progress,
		Warn:         w.warn,
		Logger:       quiet(w.env),
	})
}

// packRegistry makes files as asked, or as the store has them.
func packRegistry(c *packConfig, w *packing) *transcode.Registry {
	var o codecs.Options
	// Where it cannot be opened it is a new one, or the packing will say what is
	// wrong.
	if s, err := store.Open(c.store, store.Options{Logger: quiet(w.env)}); err == nil {
		o = codecs.OptionsOf(s.Stats().Bytes)
		s.Close()
	}
	if c.scans != nil {
		o.Cuts = jpeg.CutsAt(c.scans...)
	}
	if c.l3.given() {
		o.L3 = c.l3.Options
	}
	return codecs.New(c.limits, o)
}

// counted counts the bytes that are read.
type counted struct {
	pack.Dataset
	packing *packing
}

func (c counted) Read(ctx context.Context, path string) ([]byte, store.Identity, error) {
	data, identity, err := c.Dataset.Read(ctx, path)
	c.packing.didRead(len(data))
	return data, identity, err
}

func (c counted) Copy(ctx context.Context, path string, w io.Writer) (store.Identity, error) {
	return c.Dataset.Copy(ctx, path, counter{w, c.packing})
}

// counter counts what is written to it as read.
type counter struct {
	io.Writer
	packing *packing
}

func (c counter) Write(b []byte) (int, error) {
	c.packing.didRead(len(b))
	return c.Writer.Write(b)
}
