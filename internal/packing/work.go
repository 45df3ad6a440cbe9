package packing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pipefs/pipefs/internal/index"
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
	in, from := objects{w.Objects, map[string]blob.Version{}}, map[string]string{}
	if w.Directory == nil {
		s.Source = in
	}
	err := p.EachEntry(row, block, func(_ int64, e Entry) error {
		if e.From != "" {
			from[e.Path] = e.From
		}
		if w.Directory == nil {
			in.versions[e.in()] = e.Version
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(from) > 0 {
		s.Source = elsewhere{s.Source, from}
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

// Marker says that a shard is done. It has nothing that depends on who packed the shard.
type Marker struct {
	Magic   string             `json:"magic"`
	Version int                `json:"version"`
	Plan    store.ID           `json:"plan"`
	Shard   int                `json:"shard"`
	Packs   []store.SealedPack `json:"packs"`
	Counts
	// Failed is how many files were left out, and Failures are the first of them.
	Failed   int64     `json:"failed"`
	Failures []Failure `json:"failures,omitempty"`
}

// Counts is what the packs of a shard hold.
type Counts struct {
	Files      int64 `json:"files"`
	Dirs       int64 `json:"dirs"`
	Tombstones int64 `json:"tombstones"`
	Faults     int64 `json:"faults"` // of Files: no codec can read them
	Bytes      int64 `json:"bytes"`  // of the dataset's files
}

// Failure is a file that was left out.
type Failure struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

const (
	markerMagic   = "pipefs shard"
	markerVersion = 1
	// maxFailures is how many failures a marker names.
	maxFailures = 1000
	// maxMarker is far above what any marker has, in bytes.
	maxMarker = 64 << 20
)

// ErrMarker is the class of errors about a marker that is damaged, or not the one that it should be.
var ErrMarker = errors.New("no marker of this shard")

// ReadMarker reads the marker of a shard. The error is of the class [fs.ErrNotExist] where there is
// none, and ErrMarker where it cannot be used.
func ReadMarker(ctx context.Context, place blob.Objects, plan store.ID, shard int) (*Marker, error) {
	name := MarkerName(plan, shard)
	b, err := readObject(ctx, place, name, maxMarker)
	if err != nil {
		return nil, err
	}
	return parseMarker(name, b, plan, shard)
}

func parseMarker(name string, b []byte, plan store.ID, shard int) (*Marker, error) {
	m := &Marker{}
	if err := store.DecodeText(name, b, m); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrMarker, err)
	}
	return m, m.check(name, plan, shard)
}

func (m *Marker) check(name string, plan store.ID, shard int) error {
	var err error
	switch {
	case m.Magic != markerMagic:
		err = errors.New("it is of something else")
	case m.Version != markerVersion:
		err = fmt.Errorf("its format is %d, and this pipefs reads %d", m.Version, markerVersion)
	case m.Plan != plan:
		err = fmt.Errorf("it is of plan %x", m.Plan)
	case m.Shard != shard:
		err = fmt.Errorf("it is of shard %d", m.Shard)
	}
	for i := range m.Packs {
		if p := &m.Packs[i]; err == nil && (p.Plan != plan || p.Size <= 0 || p.Segment.Size <= 0) {
			err = fmt.Errorf("it names %s", p.File())
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrMarker, err)
	}
	return nil
}

// ErrDiffers is the class of errors about an object that another worker has put with other bytes.
var ErrDiffers = errors.New("what another worker has made of this shard differs")

// Put puts the marker, unless there is one with the same bytes.
func (m *Marker) Put(ctx context.Context, place blob.Objects) error {
	m.Magic, m.Version = markerMagic, markerVersion
	text, err := index.Seal(m)
	if err != nil {
		return err
	}
	return putAbsent(ctx, place, MarkerName(m.Plan, m.Shard), bytes.NewReader(text), int64(len(text)))
}

// readObject returns the bytes of an object of at most limit bytes.
func readObject(ctx context.Context, place blob.Objects, name string, limit int64) ([]byte, error) {
	i, err := place.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if i.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, i.Size, limit)
	}
	b := make([]byte, i.Size)
	return b, place.ReadAt(ctx, name, i.Version, b, 0)
}

// putAbsent puts an object, unless there is one with the same bytes. The error is of the class
// ErrDiffers where there is one with others.
func putAbsent(ctx context.Context, place blob.Objects, name string, body io.ReaderAt, size int64) error {
	_, err := place.PutIfAbsent(ctx, name, body, size)
	if errors.Is(err, blob.ErrExists) {
		_, err = blob.Compare(ctx, place, name, body, size)
	}
	if errors.Is(err, blob.ErrDiffers) {
		err = fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	return err
}
