package shard

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// Worker packs shards of a plan.
type Worker struct {
	Plan  *Plan
	Place blob.Objects // of the store
	// Directory is the dataset, if it is in a directory; else it is at Objects.
	Directory store.ShardSource
	Objects   blob.Objects
	Encoder   store.Encoder
	// Verbatim reports whether a file is stored as it is.
	Verbatim func(path string, size int64) bool
	// Build is the directory of this machine in which packs are until they are put.
	Build   string
	Options store.PackOptions // Workers, Progress and Logger
	// Warn is called for each file that is left out.
	Warn func(path string, err error)
}

// Done is what became of a shard.
type Done struct {
	*Marker
	// Before: it was done already.
	Before bool
}

// ErrNotThere says that what is in the place of the dataset is none of what was planned.
var ErrNotThere = errors.New("the dataset is not the one that was planned")

// suspect is from how many files on a shard of which all are gone or changed is not marked as done: the
// dataset is probably not where the worker looks for it.
const suspect = 8

// Pack packs a shard, unless its marker is there.
func (w *Worker) Pack(ctx context.Context, shard int) (Done, error) {
	m, err := ReadMarker(ctx, w.Place, w.Plan.ID, shard)
	switch {
	case err == nil:
		return Done{m, true}, nil
	case errors.Is(err, ErrMarker):
		return Done{}, fmt.Errorf("%w; delete this file, and run the same command again", err)
	case !errors.Is(err, os.ErrNotExist):
		return Done{}, err
	}
	row, err := w.Plan.Row(ctx, shard)
	if err != nil {
		return Done{}, err
	}
	block, err := w.Plan.Block(ctx, row)
	if err != nil {
		return Done{}, err
	}
	dir, remove, err := buildDir(w.Build)
	if err != nil {
		return Done{}, err
	}
	defer remove()
	m = &Marker{Plan: w.Plan.ID, Shard: shard, Packs: []store.SealedPack{}}
	if err := w.pack(ctx, m, row, block, dir); err != nil {
		return Done{}, err
	}
	return Done{m, false}, m.Put(ctx, w.Place)
}

// pack packs a shard, and puts its packs.
func (w *Worker) pack(ctx context.Context, m *Marker, row Row, block []byte, dir string) error {
	p := w.Plan
	var first error // of a file that was left out
	var files int64
	lost := func() error {
		if m.Failed < suspect || files > 0 {
			return nil
		}
		return fmt.Errorf("%w: none of the %d files of shard %d that were looked at can be packed, such as %w; nothing is written of it", ErrNotThere, m.Failed, m.Shard, first)
	}
	o := w.Options
	o.RecordImages, o.RecordBytes, o.PackBytes = p.Options.RecordImages, p.Options.RecordBytes, p.Options.PackBytes
	o.FS, o.MemoryBytes = passing{vfs.OS}, workerBytes
	o.Warn = func(path string, err error) {
		if m.Failed == 0 {
			first = fmt.Errorf("%s: %w", path, err)
		}
		if m.Failed++; m.Failed <= maxFailures {
			m.Failures = append(m.Failures, Failure{path, err.Error()})
		}
		w.Warn(path, err)
	}
	o.Progress = func(now store.Progress) {
		files = now.Files
		if w.Options.Progress != nil {
			w.Options.Progress(now)
		}
	}
	s := store.Shard{
		Plan: p.ID, Digest: p.Digest, Number: m.Shard, Age: p.Age, Encoder: w.Encoder,
		Source: w.Directory,
		Put: func(sealed store.SealedPack, pack, segment string) error {
			if err := lost(); err != nil {
				return err
			}
			m.Packs = append(m.Packs, sealed)
			return errors.Join(w.put(ctx, sealed.File(), pack), w.put(ctx, sealed.SegmentFile(), segment))
		},
	}
	if w.Directory == nil {
		in := objects{w.Objects, map[string]blob.Version{}}
		s.Source = in
		err := p.EachEntry(row, block, func(_ int64, e Entry) error {
			in.versions[e.Path] = e.Version
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.Entries = func(yield func(store.ShardEntry, error) bool) {
		err := p.EachEntry(row, block, func(seq int64, e Entry) error {
			f := store.SourceFile{Path: e.Path, Kind: e.Kind, Mode: e.Mode, Identity: e.Identity}
			f.Verbatim = e.Kind == store.File && w.Verbatim(e.Path, e.Identity.Size)
			if !yield(store.ShardEntry{SourceFile: f, Seq: seq}, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(store.ShardEntry{}, err)
		}
	}
	report, err := store.PackShard(ctx, dir, s, o)
	if err != nil {
		return err
	}
	m.Counts = Counts{Files: report.Files, Dirs: report.Dirs, Tombstones: report.Removed, Faults: report.Faults, Bytes: report.Source}
	return lost()
}

// put puts a file of this machine, and removes it here.
func (w *Worker) put(ctx context.Context, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = putAbsent(ctx, w.Place, name, f, info.Size())
	}
	if err != nil {
		return err
	}
	return os.Remove(path)
}
