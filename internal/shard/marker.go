package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
)

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
	text, err := store.EncodeText(m)
	if err != nil {
		return err
	}
	return putSame(ctx, place, MarkerName(m.Plan, m.Shard), text)
}
