// Package pack says what a store keeps of a dataset.
//
// A [Dataset] is the [store.Source] of `pipefs pack`, and its [store.Encoder]. A sample
// whose format can be split is stored as its parts, with the data that reconstructs the
// file from them ([Rebuild]), or with the file itself ([Keep]), or with neither
// ([Drop]). Any other sample is stored as the file it is, and where
// [Dataset.Represent] is set as a substitute representation, from which every view can
// be made. Every other file is stored as it is.
package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Dataset says what a store keeps of a dataset: it is the [store.Source] and
// the [store.Encoder] of `pipefs pack`.
type Dataset struct {
	Registry *transcode.Registry
	Dir      source.Dataset
	// Originals says what is kept of the files themselves beside their parts, or
	// beside what stands for them.
	Originals Originals
	// Represent is the kind of step whose result is stored for samples that have
	// no parts, beside the file itself; nil stores only the file.
	Represent *transcode.Kind
	// Log hears of files that could not be rebuilt although they should; nil is
	// silent.
	Log *slog.Logger
}

// Root is the entry of the dataset itself.
func (d Dataset) Root() (store.SourceFile, error) {
	root, err := d.Dir.Stat("")
	if err != nil {
		return store.SourceFile{}, err
	}
	return d.sourceFile("", root), nil
}

func (d Dataset) sourceFile(name string, a source.Attr) store.SourceFile {
	f := store.SourceFile{Path: name, Kind: store.File, Mode: source.BitsOf(a.Mode), Identity: stored(a.Identity)}
	f.Verbatim = d.Verbatim(name, a.Size)
	if a.Mode.IsDir() {
		f.Kind = store.Dir
	}
	return f
}

// Verbatim reports whether a file of size bytes is stored as it is, whatever it holds.
func (d Dataset) Verbatim(name string, size int64) bool {
	return !d.Registry.IsSample(name) || d.Registry.Limits().CheckFile(size) != nil
}

// stored is an identity as a store keeps it.
func stored(id source.Identity) store.Identity {
	return store.Identity{Size: id.Size, Version: id.Version()}
}

// Read implements [store.Source].
func (d Dataset) Read(_ context.Context, name string) ([]byte, store.Identity, error) {
	f, err := d.Dir.Open(name)
	if err != nil {
		return nil, store.Identity{}, err
	}
	defer f.Close()
	// Long files are copied; this one has grown since the walk.
	if f.Identity.Size > max(transcode.DefaultMaxFile, d.Registry.Limits().MaxFile) {
		return nil, stored(f.Identity), store.ErrChanged
	}
	data, err := f.ReadAll()
	return data, stored(f.Identity), err
}

// Copy implements [store.Source].
func (d Dataset) Copy(ctx context.Context, name string, w io.Writer) (store.Identity, error) {
	f, err := d.Dir.Open(name)
	if err != nil {
		return store.Identity{}, err
	}
	defer f.Close()
	id := stored(f.Identity)
	buf := make([]byte, min(id.Size, copyBytes))
	for off := int64(0); off < id.Size; {
		if err := ctx.Err(); err != nil {
			return id, err
		}
		n, err := f.ReadAt(buf[:min(int64(len(buf)), id.Size-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return id, err
		}
		if n == 0 {
			return id, fmt.Errorf("%s: %w", name, store.ErrChanged)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return id, err
		}
		off += int64(n)
	}
	if err := f.Verify(); errors.Is(err, source.ErrChanged) {
		return id, fmt.Errorf("%s: %w", name, store.ErrChanged)
	} else if err != nil {
		return id, err
	}
	return id, nil
}

// copyBytes is how much is read at once of a file that is copied.
const copyBytes = 1 << 20

// Encode implements [store.Encoder]. A sample whose format keeps its parts apart
// is stored that way, every other file as it is.
func (d Dataset) Encode(ctx context.Context, name string, data []byte) (store.Encoded, error) {
	original := store.EncodedRepresentation{Key: transcode.Original, Split: transcode.Split{Data: data}}
	kept := store.Encoded{Representations: []store.EncodedRepresentation{original}}
	if !d.Registry.IsSample(name) {
		return kept, nil
	}
	info, err := d.Registry.ProbeBytes(data)
	switch {
	case err != nil:
		kept.Fault = err.Error() // see Unread
		return kept, nil
	}
	kept.Info = info
	kind := d.split(info)
	if kind == nil {
		return d.substitute(ctx, name, data, kept, original)
	}
	split, err := d.Registry.Split(ctx, kind, data, d.Originals.rebuild() && kind.Restore != nil)
	switch {
	case errors.Is(err, transcode.ErrUnsupported), errors.Is(err, cgroup.ErrMemory):
		if d.Log != nil {
			d.Log.Warn("stored as it is, and shown unchanged by scan views", "sample", name, "cause", err)
		}
		kept.Info.Scannable = false
		return kept, nil
	case errors.Is(err, context.Canceled):
		return store.Encoded{}, err
	case err != nil:
		kept.Fault = err.Error()
		return kept, nil
	}
	parts := store.EncodedRepresentation{Key: transcode.SplitKey(kind), Split: split}
	switch reconstruction, ok := d.reconstruction(ctx, name, kind, data, split); {
	case ctx.Err() != nil:
		return store.Encoded{}, ctx.Err()
	case d.Originals == Drop:
		kept.Representations = []store.EncodedRepresentation{parts}
	case ok:
		kept.Representations = []store.EncodedRepresentation{parts, reconstruction}
	default:
		kept.Representations = []store.EncodedRepresentation{parts, original}
	}
	return kept, nil
}

// split is the kind that stores such a sample in parts, or nil.
func (d Dataset) split(info transcode.Info) *transcode.Kind {
	if info.Format == transcode.Unknown {
		return nil
	}
	for _, kind := range d.Registry.Kinds() {
		if kind.Split == nil {
			continue
		}
		if _, ok := kind.Shape(transcode.Shape{Info: info, Stage: transcode.Source}, kind.Max); ok {
			return kind
		}
	}
	return nil
}

// Current implements [store.Encoder].
func (d Dataset) Current(s *store.Sample) bool {
	if s.Fault != "" {
		// A later version may read what this one could not.
		return s.Representation(transcode.Original) != nil
	}
	kind := d.split(s.Info)
	if kind == nil {
		return d.hasSubstitute(s)
	}
	return s.Representation(transcode.SplitKey(kind)) != nil && d.givesOriginal(s, kind)
}

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
