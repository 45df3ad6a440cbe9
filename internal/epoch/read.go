package epoch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// Piece is part of a file, in memory that nobody changes until Release.
type Piece struct {
	Bytes []byte
	batch *batch // nil where the memory is the file's own
}

// Release gives the memory back.
func (p Piece) Release() {
	if p.batch != nil {
		p.batch.release()
	}
}

// Read returns up to n bytes at off, and none behind the end. It waits until the batch is
// made.
func (f *File) Read(ctx context.Context, off int64, n int) (Piece, error) {
	if off < 0 || off >= f.Size() {
		return Piece{}, nil
	}
	if f.data != nil {
		return Piece{Bytes: f.data[off:min(off+int64(n), f.Size())]}, nil
	}
	if f.batch == f.view.share.batches()-1 {
		f.view.read.Store(true)
	}
	b, err := f.view.of.maker.open(ctx, batchKey{f.view, f.batch})
	if err != nil {
		return Piece{}, err
	}
	data := b.data
	if f.masks {
		data = data[f.view.pixelBytes(b.n):]
	}
	p := Piece{Bytes: data[off:min(off+int64(n), f.Size())], batch: b}
	if b.read.Add(int64(len(p.Bytes))) == int64(len(p.Bytes)) {
		f.view.of.use(f.view.epoch)
	}
	return p, nil
}

// make writes the values of one sample to dst.
func (w *View) make(ctx context.Context, id uint32, p transcode.Pipeline, want transcode.Array, dst []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = transcode.Errorf(transcode.ErrInternal, "panic: %v", r)
		}
	}()
	for range 2 {
		if err = w.makeOnce(ctx, id, p, want, dst); !errors.Is(err, source.ErrChanged) {
			break
		}
	}
	return err
}

func (w *View) makeOnce(ctx context.Context, id uint32, p transcode.Pipeline, want transcode.Array, dst []byte) error {
	h, err := w.of.resolve(ctx, id, p, serve.Planned)
	if err != nil {
		return err
	}
	if err := h.Verify(ctx); err != nil {
		return err
	}
	if array, ok := h.Plan().Array(); !ok || !array.Equal(want) {
		return w.other(h, array, want, ok)
	}
	return h.MakeValues(ctx, dst)
}

// resolve resolves a sample.
func (v *Views) resolve(ctx context.Context, id uint32, p transcode.Pipeline, most serve.Effort) (*serve.Handle, error) {
	s, path := v.o.Server, v.tree.Path(id)
	a, err := s.Stat(path, false)
	if err != nil {
		return nil, err
	}
	return s.Resolve(ctx, serve.Key(id), serve.File{Path: path, Identity: a.Identity}, p, most)
}

// pipelineOf is what the i-th sample of the list is made by: rows of one sample have several draws.
func (w *View) pipelineOf(i int) transcode.Pipeline {
	if n := w.epoch.list.repeat(i); n > 0 && w.pipeline.Random() {
		return w.pipeline.Repeat(n)
	}
	return w.pipeline // a batch that somebody chose may have another draw of the epoch
}

// other says why a sample does not fit into a batch.
func (w *View) other(h *serve.Handle, array, want transcode.Array, ok bool) error {
	mode := h.Plan().Info().Mode
	switch {
	case !ok:
		return fmt.Errorf("%s leaves a file of mode %v as it is", w.path.View, mode)
	case w.masked && want.Equal(w.mask):
		return fmt.Errorf("it has mode %v, and its values are not of the type and number of those of the first mask: convert the masks to one mode", mode)
	}
	return fmt.Errorf("a picture of mode %v has the shape %v in %s, and the others of the batch have %v; read %s, which makes RGB of all",
		mode, array.Shape, w.path.View, slices.Clone(w.array.Shape), w.of.o.Registry.OfPictures(w.pipeline))
}

func isRefused(err error) bool { return errors.Is(err, serve.ErrRefused) }

type counters struct{ made, failed, black, replaced, early, used, wasted atomic.Int64 }

// Stats are what the views of a mount have done.
type Stats struct {
	Made   int64 // batches made
	Failed int64 // batches that could not be made
	Black  int64 // samples that could not be made, and are black
	// Replaced is how many samples could not be made, and others are in their place.
	Replaced int64
	Bytes    int64 // of memory for batches
	// Early is how many batches were made before a reader came, Used how many of these have been asked
	// for, and Wasted how many have been dropped.
	Early, Used, Wasted int64
}

// Stats returns the counters.
func (v *Views) Stats() Stats {
	m := v.maker
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{Made: m.stats.made.Load(), Failed: m.stats.failed.Load(), Black: m.stats.black.Load(), Replaced: m.stats.replaced.Load(), Bytes: m.held,
		Early: m.stats.early.Load(), Used: m.stats.used.Load(), Wasted: m.stats.wasted.Load()}
}
