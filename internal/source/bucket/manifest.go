package bucket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/names"
	"github.com/pipefs/pipefs/store/blob"
)

// A manifest is an index of objects by their names, see package index; it says of itself the
// summary. A value is size, modification time in ns since 1970, and version.
const (
	formatVersion = 2
	manifestID    = "names"
	// maxVersion is the longest version of an object, in bytes.
	maxVersion = 32 << 10
)

// Summary is what a manifest says of itself.
type Summary struct {
	Format int `json:"format"`
	// Place is what was listed: a path or URL.
	Place  string    `json:"place"`
	Listed time.Time `json:"listed"` // when listing began
	names.Counts
}

// Manifest is the list of a place. It is safe for concurrent use.
type Manifest struct {
	Summary
	dir  string
	tree names.Tree
}

// ErrManifest is the class of errors about what is no manifest, or a damaged one.
var ErrManifest = errors.New("no usable manifest")

func broken(dir, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w", dir, ErrManifest, fmt.Errorf(format, args...))
}

// OpenManifest opens the manifest in a directory. Its entries are checked when they are read.
func OpenManifest(dir string) (*Manifest, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, broken(dir, "it is no directory; pipefs list writes one")
	}
	m := &Manifest{dir: dir}
	var err error
	m.tree.Index, err = index.Open(dir, manifestID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, broken(dir, "pipefs list did not write it")
	case errors.Is(err, index.ErrCorrupt):
		return nil, broken(dir, "%w", err)
	case err != nil:
		return nil, err
	}
	if err := m.tree.Describe(&m.Summary); err != nil {
		return nil, errors.Join(broken(dir, "the summary: %w", err), m.Close())
	}
	if m.Format != formatVersion {
		return nil, errors.Join(broken(dir, "its format is %d, and this pipefs reads %d", m.Format, formatVersion), m.Close())
	}
	m.tree.Hidden = m.Shadowed > 0
	return m, nil
}

// Close closes the index.
func (m *Manifest) Close() error { return m.tree.Close() }

func appendObject(b []byte, i *blob.Info) []byte {
	b = binary.AppendUvarint(b, uint64(i.Size))
	b = binary.AppendVarint(b, i.Modified.UnixNano())
	return append(b, i.Version...)
}

func decodeObject(name string, b []byte) (blob.Info, error) {
	i := blob.Info{Name: name}
	size, k := binary.Uvarint(b)
	if k <= 0 || int64(size) < 0 {
		return blob.Info{}, fmt.Errorf("%s: an object without a size", i.Name)
	}
	modified, l := binary.Varint(b[k:])
	if l <= 0 {
		return blob.Info{}, fmt.Errorf("%s: an object without a time", i.Name)
	}
	i.Size, i.Modified, i.Version = int64(size), time.Unix(0, modified), blob.Version(b[k+l:])
	return i, nil
}

// find returns what is listed under a name; the error is of the class [fs.ErrNotExist] where that is
// nothing. A directory has only its name, and Dir.
func (m *Manifest) find(name string) (blob.Info, error) {
	object, dir, err := m.tree.Find(name)
	switch {
	case err != nil:
		return blob.Info{}, m.broken(err)
	case dir:
		return blob.Info{Name: name, Dir: true}, nil
	}
	i, err := decodeObject(name, object)
	return i, m.broken(err)
}

// broken tells what is to be done about a table that cannot be read.
func (m *Manifest) broken(cause error) error {
	if cause == nil || errors.Is(cause, fs.ErrNotExist) {
		return cause
	}
	return broken(m.dir, "%w; list the place again, with pipefs list or pipefs refresh", cause)
}

// list returns the members of a directory, by name.
func (m *Manifest) list(dir string) ([]source.Entry, error) {
	entries, err := m.tree.List(dir)
	return entries, m.broken(err)
}

// placeName is what a place is called in a manifest: no name of a place ends with a slash.
func placeName(place string) string { return strings.TrimRight(place, "/") }

var _ io.Closer = (*Manifest)(nil)

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
