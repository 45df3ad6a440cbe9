package pack

import (
	"context"
	"errors"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// substitute adds what stands for the sample, if that was asked for and can be: then
// the original may be dropped.
func (d Dataset) substitute(ctx context.Context, name string, data []byte, kept store.Encoded, original store.EncodedRepresentation) (store.Encoded, error) {
	if d.Represent == nil {
		return kept, nil
	}
	key, ok := d.Registry.SubstituteKey(d.Represent, kept.Info)
	if !ok {
		return kept, nil
	}
	file, err := d.Registry.Substitute(ctx, d.Represent, kept.Info, data)
	switch {
	case ctx.Err() != nil:
		return store.Encoded{}, ctx.Err()
	case errors.Is(err, transcode.ErrInternal), errors.Is(err, cgroup.ErrMemory):
		said := "stored as it is"
		if errors.Is(err, transcode.ErrInternal) {
			said += "; this is a bug of pipefs"
		}
		if d.Log != nil {
			d.Log.Warn(said, "sample", name, "cause", err)
		}
		return kept, nil
	case errors.Is(err, transcode.ErrUnsupported):
		return kept, nil
	case err != nil:
		kept.Fault = err.Error()
		return kept, nil
	}
	kept.Representations = []store.EncodedRepresentation{{Key: key, Split: transcode.Split{Data: file}}}
	if d.Originals != Drop {
		// Nothing gives it back but itself.
		kept.Representations = append(kept.Representations, original)
	}
	return kept, nil
}

// hasSubstitute reports whether a sample that is not stored in parts is stored as
// substitute would store it.
func (d Dataset) hasSubstitute(s *store.Sample) bool {
	original := s.Representation(transcode.Original) != nil
	if d.Represent == nil {
		return original
	}
	key, ok := d.Registry.SubstituteKey(d.Represent, s.Info)
	if !ok {
		return original
	}
	return s.Representation(key) != nil && (original || d.Originals == Drop)
}
