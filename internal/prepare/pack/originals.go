package pack

import (
	"bytes"
	"context"
	"errors"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Originals says what a store keeps of the files that it stores in parts, beside
// these parts.
type Originals string

// The choices. "" is Rebuild.
const (
	// Rebuild keeps what it takes to give the file back from its parts,
	// and the file itself where they cannot.
	Rebuild Originals = "rebuild"
	// Keep keeps the file itself.
	Keep Originals = "keep"
	// Drop keeps neither.
	Drop Originals = "drop"
)

func (o Originals) rebuild() bool { return o != Keep && o != Drop }

// reconstruction is what is stored to rebuild the file from its parts; ok is false where
// that was not asked for, and where it cannot be done.
func (d Dataset) reconstruction(ctx context.Context, name string, kind *transcode.Kind, data []byte, split transcode.Split) (r store.EncodedRepresentation, ok bool) {
	if !d.Originals.rebuild() || kind.Restore == nil || split.Reconstruction == nil {
		return r, false
	}
	// The dataset may be deleted once it is packed: what was not given back once
	// is not relied upon.
	if err := d.givesBack(ctx, kind, data, split); err != nil {
		if d.Log != nil && ctx.Err() == nil {
			said := "stored as it is, too: its scans do not give it back"
			if errors.Is(err, transcode.ErrInternal) {
				said += "; this is a bug of pipefs"
			}
			d.Log.Warn(said, "sample", name, "cause", err)
		}
		return r, false
	}
	return store.EncodedRepresentation{Key: transcode.ReconstructionKey(kind), Split: transcode.Split{Data: split.Reconstruction}}, true
}

// givesBack returns an error unless the parts and the reconstruction data give data back.
func (d Dataset) givesBack(ctx context.Context, kind *transcode.Kind, data []byte, split transcode.Split) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = transcode.Errorf(transcode.ErrInternal, "panic: %v", r)
		}
	}()
	whole := make([]byte, 0, len(split.Data)+len(split.Tail))
	whole = append(append(whole, split.Data...), split.Tail...)
	got, err := d.Registry.Restore(ctx, kind, whole, split.Reconstruction)
	switch {
	case err != nil:
		return err
	case len(got) != len(data):
		return transcode.Errorf(transcode.ErrInternal, "%d bytes where there were %d", len(got), len(data))
	case !bytes.Equal(got, data):
		return transcode.Errorf(transcode.ErrInternal, "other bytes of the same length")
	}
	return nil
}

// givesOriginal reports whether a sample stored in parts has what is asked for
// beside them. The file itself is as good as what rebuilds it.
func (d Dataset) givesOriginal(s *store.Sample, kind *transcode.Kind) bool {
	if d.Originals == Drop || s.Representation(transcode.Original) != nil {
		return true
	}
	return d.Originals.rebuild() && s.Representation(transcode.ReconstructionKey(kind)) != nil
}

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
