package bucket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/source"
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
	Place   string    `json:"place"`
	Listed  time.Time `json:"listed"` // when listing began
	Objects int64     `json:"objects"`
	Bytes   int64     `json:"bytes"`    // of the objects
	LeftOut int64     `json:"left_out"` // objects whose names are no paths
	// Shadowed is the number of objects that are in the index, and left out because their names
	// are also directories. LeftOut counts them, too.
	Shadowed int64 `json:"shadowed"`
}

// Manifest is the list of a place. It is safe for concurrent use.
type Manifest struct {
	Summary
	dir   string
	names *index.Index
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
	m.names, err = index.Open(dir, manifestID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, broken(dir, "pipefs list did not write it")
	case errors.Is(err, index.ErrCorrupt):
		return nil, broken(dir, "%w", err)
	case err != nil:
		return nil, err
	}
	if err := m.names.Describe(&m.Summary); err != nil {
		return nil, errors.Join(broken(dir, "the summary: %w", err), m.Close())
	}
	if m.Format != formatVersion {
		return nil, errors.Join(broken(dir, "its format is %d, and this pipefs reads %d", m.Format, formatVersion), m.Close())
	}
	return m, nil
}

// Close closes the index.
func (m *Manifest) Close() error { return m.names.Close() }

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
	if name == "" {
		return blob.Info{Dir: true}, nil
	}
	object, err := m.names.Get(nil, []byte(name))
	if err != nil {
		return blob.Info{}, m.broken(err)
	}
	if object == nil || m.Shadowed > 0 {
		dir, err := m.isDir(name)
		switch {
		case err != nil:
			return blob.Info{}, err
		case dir:
			return blob.Info{Name: name, Dir: true}, nil
		case object == nil:
			return blob.Info{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
		}
	}
	i, err := decodeObject(name, object)
	return i, m.broken(err)
}

// isDir reports whether objects have a name before a slash.
func (m *Manifest) isDir(name string) (is bool, err error) {
	prefix := []byte(name + "/")
	err = m.names.Walk(prefix, func(name, _ []byte) error {
		is = bytes.HasPrefix(name, prefix)
		return index.ErrEnough
	})
	return is, m.broken(err)
}

// broken tells what is to be done about a table that cannot be read.
func (m *Manifest) broken(cause error) error {
	if cause == nil {
		return nil
	}
	return broken(m.dir, "%w; list the place again, with pipefs list or pipefs refresh", cause)
}

// skipItems is how many objects of a directory are passed one by one before those that follow
// are searched for.
const skipItems = 32

// list returns the members of a directory, by name.
func (m *Manifest) list(dir string) ([]source.Entry, error) {
	prefix := ""
	if dir != "" {
		prefix = dir + "/"
	}
	l := lister{prefix: prefix, from: prefix}
	for l.more = true; l.more; {
		l.more, l.skipped = false, 0
		if err := m.names.Walk([]byte(l.from), l.object); err != nil {
			return nil, m.broken(err)
		}
	}
	if !l.found && dir != "" {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	return l.done(), nil
}

// lister collects the members of a directory.
type lister struct {
	prefix  string
	from    string // where the next walk begins, if there are more
	more    bool
	skipped int
	found   bool // the directory is there
	entries []source.Entry
	in      []byte // the name of the last directory in it, with the prefix and a slash
	dirs    int
}

// object takes the next object.
func (l *lister) object(name, _ []byte) error {
	if !bytes.HasPrefix(name, []byte(l.prefix)) {
		return index.ErrEnough
	}
	l.found = true
	if l.in != nil && bytes.HasPrefix(name, l.in) {
		if l.skipped++; l.skipped < skipItems {
			return nil
		}
		// behind all that is in the directory: what ends with the byte after the slash
		l.from, l.more = string(l.in[:len(l.in)-1])+"0", true
		return index.ErrEnough
	}
	l.skipped = 0
	rest := name[len(l.prefix):]
	end := bytes.IndexByte(rest, '/')
	if end < 0 {
		l.entries = append(l.entries, source.Entry{Name: string(rest)})
		return nil
	}
	l.in = append(l.in[:0], name[:len(l.prefix)+end+1]...)
	l.entries = append(l.entries, source.Entry{Name: string(rest[:end]), Dir: true})
	l.dirs++
	return nil
}

// done returns the entries by name, where they were by names with a slash behind directories. A
// directory hides an object of its name.
func (l *lister) done() []source.Entry {
	if l.dirs == 0 {
		return l.entries
	}
	return sortEntries(l.entries)
}

// placeName is what a place is called in a manifest: no name of a place ends with a slash.
func placeName(place string) string { return strings.TrimRight(place, "/") }

var _ io.Closer = (*Manifest)(nil)
