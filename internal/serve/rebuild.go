package serve

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// rebuilding is how the original is given back by a store that has not got it:
// from all parts of the sample, which are the source of the job, and from what
// undoes the split.
type rebuilding struct {
	kind *transcode.Kind
	undo func() (sized, error)
	work int64 // bytes of memory that it takes, about; the parts not counted
}

// rebuild is the job that makes the original of a file; nil where the store
// cannot give it back. Its plan is that of the unchanged sample, whose key no
// other product has.
func (p *Server) rebuild(f File) (*job, error) {
	stored, err := p.stored(f)
	if err != nil || stored == nil {
		return nil, err
	}
	kind := p.restorer(stored)
	if kind == nil {
		return nil, nil
	}
	parts, undo := stored.Representation(transcode.SplitKey(kind)), stored.Representation(transcode.ReconstructionKey(kind))
	pixels := int64(stored.Info.Width) * int64(stored.Info.Height)
	return &job{
		file:    f,
		origins: []origin{{open: func() (sized, error) { return p.o.Store.Reader(*parts, 0) }}},
		rebuild: &rebuilding{
			kind: kind,
			undo: func() (sized, error) { return p.o.Store.Reader(*undo, 0) },
			// coefficients take two bytes a sample of each channel
			work: 2*pixels*int64(stored.Info.Mode.Channels()) + f.Identity.Size,
		},
	}, nil
}

// restorer is the kind of step whose parts of a sample are stored together with what
// undoes the split; nil where there is none.
func (p *Server) restorer(stored *store.Sample) *transcode.Kind {
	for _, k := range p.o.Registry.Kinds() {
		if k.Split != nil && k.Restore != nil &&
			stored.Representation(transcode.SplitKey(k)) != nil && stored.Representation(transcode.ReconstructionKey(k)) != nil {
			return k
		}
	}
	return nil
}

// run gives the original back. What goes wrong is a broken promise of ours, as it
// could be given back when it was packed, but for limits, which may be lower now.
func (r *rebuilding) run(ctx context.Context, f File, parts []byte, lim transcode.Limits) (transcode.Split, error) {
	undo, err := r.readUndo(lim)
	if err != nil {
		return transcode.Split{}, err
	}
	data, err := r.kind.Restore(ctx, parts, undo, lim)
	switch {
	case ctx.Err() != nil:
		return transcode.Split{}, ctx.Err()
	case errors.Is(err, transcode.ErrUnsupported):
		return transcode.Split{}, fmt.Errorf("rebuilding the original: %w", err)
	case err != nil:
		// %v: to readers it must not look like a fault of the sample
		return transcode.Split{}, transcode.Errorf(transcode.ErrInternal, "rebuilding the original: %v", err)
	case int64(len(data)) != f.Identity.Size:
		return transcode.Split{}, transcode.Errorf(transcode.ErrInternal, "rebuilding the original gave %d bytes where %d were promised", len(data), f.Identity.Size)
	}
	return transcode.Split{Data: data, Ends: []int{len(data)}}, nil
}

func (r *rebuilding) readUndo(lim transcode.Limits) ([]byte, error) {
	from, err := r.undo()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if err := lim.CheckFile(from.Size()); err != nil {
		return nil, err
	}
	undo := make([]byte, from.Size())
	if n, err := from.ReadAt(undo, 0); n < len(undo) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading what rebuilds the original: %w", err)
	}
	return undo, nil
}
