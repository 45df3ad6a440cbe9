package main

import (
	"context"

	"github.com/pipefs/pipefs/internal/dataset"
	"github.com/pipefs/pipefs/internal/produce"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// packStore puts a dataset into a store.
func packStore(ctx context.Context, c *packConfig, d *dataset.Dataset, w *packing) (store.Report, error) {
	what := produce.Packing{
		Registry:      registry(transcode.Limits{MaxPixels: c.maxPixels}),
		Dataset:       d,
		KeepOriginals: c.keepOriginals,
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
