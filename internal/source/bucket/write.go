package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/source/names"
	"github.com/pipefs/pipefs/store/blob"
)

// WriteOptions of Write.
type WriteOptions struct {
	// Progress is told how many objects were listed, now and then; nil is told nothing.
	Progress func(objects int64)
	Log      *slog.Logger // nil is silent
}

// ErrEmpty is that there is no object in a place. Nobody means that: the place is misspelled, or
// was moved.
var ErrEmpty = errors.New("there is no object")

// Write lists a place and writes the manifest as a directory, whole or not at all, in place of one that
// is there. If there is nothing to list, the error is of the class ErrEmpty.
func Write(ctx context.Context, o blob.Objects, dir string, w WriteOptions) (_ Summary, err error) {
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	if err := mayReplace(dir); err != nil {
		return Summary{}, err
	}
	m := &manifestWriter{Progress: w.Progress, place: placeName(o.String())}
	summary := Summary{Format: formatVersion, Place: m.place, Listed: time.Now().Round(0)}
	if m.Writer, err = names.Create(ctx, dir, manifestID, m.place, 0, w.Log); err != nil {
		return Summary{}, err
	}
	err = m.list(ctx, o)
	if err == nil && m.Objects == 0 {
		err = fmt.Errorf("%s: %w; is the place right?", m.place, ErrEmpty)
	}
	if err != nil {
		return Summary{}, errors.Join(err, m.Abort())
	}
	summary.Counts = m.Counts
	return summary, m.Finish(summary)
}

// mayReplace refuses what is there and no manifest.
func mayReplace(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("a manifest is a directory: %w", err)
	}
	if !index.Is(dir) {
		return fmt.Errorf("%s is a directory that holds something else: choose another name for the manifest", dir)
	}
	return nil
}

// manifestWriter writes a manifest from objects in the order of their names.
type manifestWriter struct {
	*names.Writer
	Progress func(objects int64)
	place    string
	value    []byte
	told     int64
}

// toldObjects is how often progress is told.
const toldObjects = 1000

// add takes the next object.
func (m *manifestWriter) add(i *blob.Info) error {
	if strings.HasSuffix(i.Name, "/") && i.Size == 0 || i.Name == "" {
		return nil
	}
	if strings.HasSuffix(i.Name, "/") {
		m.LeaveOut(i.Name, "a part of it is empty")
		return nil
	}
	if len(i.Version) > maxVersion {
		return fmt.Errorf("%s: the version of the object %s has %d bytes", m.place, i.Name, len(i.Version))
	}
	m.value = appendObject(m.value[:0], i)
	switch err := m.Add(i.Name, m.value, i.Size); {
	case errors.Is(err, names.ErrOrder):
		return fmt.Errorf("%s lists names in another order than S3 does, and cannot be mounted: %w", m.place, err)
	case err != nil:
		return err
	}
	if m.Progress != nil && m.Objects >= m.told+toldObjects {
		m.told = m.Objects
		m.Progress(m.Objects)
	}
	return nil
}
