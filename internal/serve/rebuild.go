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
// from all parts of the sample, and from the data that reconstructs the file from them.
type rebuilding struct {
	kind           *transcode.Kind
	reconstruction *store.Representation
	work           int64 // bytes of memory that it takes, about; the parts not counted
}

// rebuild returns a handle of the original that the store gives back, and what it is made
// from; nil where the store cannot. Its result has a key that no other has.
func (s *Server) rebuild(h *Handle, sample *store.Sample) (*Handle, candidate) {
	kind := s.restorer(sample)
	if kind == nil {
		return nil, candidate{}
	}
	parts, reconstruction := sample.Representation(transcode.SplitKey(kind)), sample.Representation(transcode.ReconstructionKey(kind))
	pixels := int64(sample.Info.Width) * int64(sample.Info.Height)
	rebuilt := &Handle{
		server: s, key: h.key, file: h.file, view: h.view, size: h.size, result: h.result, sample: sample,
		rebuild: &rebuilding{
			kind:           kind,
			reconstruction: reconstruction,
			// coefficients take two bytes a sample of each channel
			work: 2*pixels*int64(sample.Info.Mode.Channels()) + h.file.Identity.Size,
		},
	}
	return rebuilt, candidate{stored: parts}
}

// restorer is the kind of step whose parts of a sample are stored together with what
// reconstructs the file from them; nil where there is none.
func (s *Server) restorer(sample *store.Sample) *transcode.Kind {
	if sample == nil {
		return nil
	}
	for _, k := range s.kinds {
		if k.Split != nil && k.Restore != nil &&
			sample.Representation(transcode.SplitKey(k)) != nil && sample.Representation(transcode.ReconstructionKey(k)) != nil {
			return k
		}
	}
	return nil
}

// run gives the original back. What goes wrong is a broken promise of ours, as it
// could be given back when it was packed, but for limits, which may be lower now.
func (r *rebuilding) run(ctx context.Context, s *Server, f File, parts []byte) (transcode.Split, error) {
	reconstruction, err := r.read(s, f)
	if err != nil {
		return transcode.Split{}, err
	}
	data, err := s.o.Registry.Restore(ctx, r.kind, parts, reconstruction)
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

func (r *rebuilding) read(s *Server, f File) ([]byte, error) {
	from, err := s.openStored(f, r.reconstruction, 0)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if err := s.o.Registry.Limits().CheckFile(from.Size()); err != nil {
		return nil, err
	}
	data := make([]byte, from.Size())
	if n, err := from.ReadAt(data, 0); n < len(data) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading what rebuilds the original: %w", err)
	}
	return data, nil
}

// Rebuilt counts the samples whose original is rebuilt when it is first read, which takes
// a JPEG of the usual size 2 to 3 ms of CPU. The files of Nearby do not count: each may
// be there or not.
func (s *Server) Rebuilt() (samples int64, err error) {
	if s.o.Store == nil || s.o.Dataset != nil {
		return 0, nil
	}
	for _, alike := range s.o.Store.Stats().WithoutOriginal {
		sample, err := s.o.Store.Lookup(alike.Example)
		if err != nil {
			return 0, err
		}
		if s.restorer(&sample) != nil {
			samples += alike.Samples
		}
	}
	return samples, nil
}
