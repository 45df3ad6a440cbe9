package main

import (
	"context"

	"github.com/pipefs/pipefs/internal/dataset"
	"github.com/pipefs/pipefs/internal/produce"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// packStore puts a dataset into a store.
func packStore(ctx context.Context, c *packConfig, d *dataset.Dataset, w *packing) (store.Report, error) {
	what := produce.Packing{
		Registry:  packRegistry(c, w),
		Dataset:   d,
		Originals: produce.Originals(c.originals),
		Log:       quiet(w.env),
	}
	return store.Pack(ctx, c.store, counted{what, w}, what, store.PackOptions{
		RecordImages: c.recordImages,
		Order:        store.Order(c.order),
		Seed:         uint64(c.seed),
		Workers:      c.workers,
		DatasetPath:  c.dataset,
		Progress:     w.progress,
		Warn:         w.warn,
		Logger:       quiet(w.env),
	})
}

// packRegistry cuts JPEG files as asked, or as the store has them.
func packRegistry(c *packConfig, w *packing) *transcode.Registry {
	if c.scans != nil {
		return codecs.WithCuts(c.limits, jpeg.CutsAt(c.scans...))
	}
	s, err := store.Open(c.store, store.Options{Logger: quiet(w.env)})
	if err != nil { // a new one, or the packing will say what is wrong
		return registry(c.limits)
	}
	defer s.Close()
	return registryOf(c.limits, s)
}

// counted counts the bytes that are read.
type counted struct {
	produce.Packing
	packing *packing
}

func (c counted) Read(ctx context.Context, path string) ([]byte, store.Identity, error) {
	data, identity, err := c.Packing.Read(ctx, path)
	c.packing.didRead(len(data))
	return data, identity, err
}
