package bucket

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/sstable"
	"github.com/pipefs/pipefs/store/blob"
)

// A manifest is a file: a table of objects by the bytes of their names, then the summary as JSON,
// then the trailer.
const (
	formatVersion = 1
	magic         = "pipefsM1"
	// trailerLen is that of the trailer: length and checksum of the summary, magic.
	trailerLen = 4 + 4 + len(magic)
	// maxSummary bounds what is read of a file that may be no manifest, in bytes.
	maxSummary = 1 << 20
	// maxItem is the longest item of the table, in bytes.
	maxItem = 64 << 10
)

// objects is the layout of the table. An item is the name, with its length before it; then size,
// modification time in ns since 1970, and version.
var objects = &sstable.Layout{MaxItem: maxItem, Key: itemName}

// Summary is what a manifest says of itself.
type Summary struct {
	Format int `json:"format"`
	// Place is what was listed: a path or URL.
	Place   string    `json:"place"`
	Listed  time.Time `json:"listed"` // when listing began
	Objects int64     `json:"objects"`
	Bytes   int64     `json:"bytes"`    // of the objects
	LeftOut int64     `json:"left_out"` // objects whose names are no paths
	// Shadowed is the number of objects that are in the table, and left out because their names
	// are also directories. LeftOut counts them, too.
	Shadowed int64        `json:"shadowed"`
	Table    sstable.Seal `json:"table"`
}

// Manifest is the list of a place. It is safe for concurrent use.
type Manifest struct {
	Summary
	f     *os.File
	table *sstable.Table
}

// ErrManifest is the class of errors about a file that is no manifest, or a damaged one.
var ErrManifest = errors.New("no usable manifest")

func broken(file, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w", file, ErrManifest, fmt.Errorf(format, args...))
}

// OpenManifest opens a manifest. Its table is read, and checked, when it is asked.
func OpenManifest(file string) (*Manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	m := &Manifest{f: f}
	if err := m.open(); err != nil {
		f.Close()
		return nil, err
	}
	return m, nil
}

func (m *Manifest) open() error {
	info, err := m.f.Stat()
	if err != nil {
		return err
	}
	size := info.Size() - int64(trailerLen)
	var trailer [trailerLen]byte
	switch {
	case !info.Mode().IsRegular():
		return broken(m.f.Name(), "it is no file")
	case size < 0:
		return broken(m.f.Name(), "%d bytes are too few", info.Size())
	}
	if _, err := m.f.ReadAt(trailer[:], size); err != nil {
		return err
	}
	if string(trailer[8:]) != magic {
		return broken(m.f.Name(), "it was cut short, or pipefs list did not write it")
	}
	n := int64(binary.LittleEndian.Uint32(trailer[:]))
	if n > min(size, maxSummary) {
		return broken(m.f.Name(), "a summary of %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := m.f.ReadAt(text, size-n); err != nil {
		return err
	}
	if sstable.Sum(text) != binary.LittleEndian.Uint32(trailer[4:]) {
		return broken(m.f.Name(), "the summary: %w", sstable.ErrSum)
	}
	if err := json.Unmarshal(text, &m.Summary); err != nil {
		return broken(m.f.Name(), "the summary: %w", err)
	}
	if m.Format != formatVersion {
		return broken(m.f.Name(), "its format is %d, and this pipefs reads %d", m.Format, formatVersion)
	}
	if m.Table.Size != size-n {
		return broken(m.f.Name(), "a table of %d bytes, want %d", size-n, m.Table.Size)
	}
	if m.table, err = sstable.Open(m.f, m.Table, objects); err != nil {
		return broken(m.f.Name(), "%w", err)
	}
	return nil
}

// File is the path of the file.
func (m *Manifest) File() string { return m.f.Name() }

// Close closes the file.
func (m *Manifest) Close() error { return m.f.Close() }

// itemName is the name in an item; empty where it cannot be read.
func itemName(item []byte) []byte {
	n, k := binary.Uvarint(item)
	if k <= 0 || n > uint64(len(item)-k) {
		return nil
	}
	return item[k : k+int(n)]
}

func appendItem(b []byte, i *blob.Info) []byte {
	b = binary.AppendUvarint(b, uint64(len(i.Name)))
	b = append(b, i.Name...)
	b = binary.AppendUvarint(b, uint64(i.Size))
	b = binary.AppendVarint(b, i.Modified.UnixNano())
	return append(b, i.Version...)
}

func decodeItem(item []byte) (blob.Info, error) {
	n, k := binary.Uvarint(item)
	if k <= 0 || n > uint64(len(item)-k) {
		return blob.Info{}, errors.New("an object without a name")
	}
	i := blob.Info{Name: string(item[k : k+int(n)])}
	item = item[k+int(n):]
	size, k := binary.Uvarint(item)
	if k <= 0 || int64(size) < 0 {
		return blob.Info{}, fmt.Errorf("%s: an object without a size", i.Name)
	}
	modified, l := binary.Varint(item[k:])
	if l <= 0 {
		return blob.Info{}, fmt.Errorf("%s: an object without a time", i.Name)
	}
	i.Size, i.Modified, i.Version = int64(size), time.Unix(0, modified), blob.Version(item[k+l:])
	return i, nil
}

// find returns what is listed under a name; the error is of the class [fs.ErrNotExist] where that is
// nothing. A directory has only its name, and Dir.
func (m *Manifest) find(name string) (blob.Info, error) {
	if name == "" {
		return blob.Info{Dir: true}, nil
	}
	item, err := m.table.Find([]byte(name))
	if err != nil {
		return blob.Info{}, m.broken(err)
	}
	if item == nil || m.Shadowed > 0 {
		dir, err := m.isDir(name)
		switch {
		case err != nil:
			return blob.Info{}, err
		case dir:
			return blob.Info{Name: name, Dir: true}, nil
		case item == nil:
			return blob.Info{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
		}
	}
	i, err := decodeItem(item)
	return i, m.broken(err)
}

// isDir reports whether objects have a name before a slash.
func (m *Manifest) isDir(name string) (is bool, err error) {
	prefix := []byte(name + "/")
	err = m.table.Walk(prefix, func(item []byte) error {
		is = bytes.HasPrefix(itemName(item), prefix)
		return sstable.ErrEnough
	})
	return is, m.broken(err)
}

// broken tells what is to be done about a table that cannot be read.
func (m *Manifest) broken(cause error) error {
	if cause == nil {
		return nil
	}
	return broken(m.f.Name(), "%w; list the place again, with pipefs list or pipefs refresh", cause)
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
		if err := m.table.Walk([]byte(l.from), l.item); err != nil {
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

// item takes the next object.
func (l *lister) item(item []byte) error {
	name := itemName(item)
	if !bytes.HasPrefix(name, []byte(l.prefix)) {
		return sstable.ErrEnough
	}
	l.found = true
	if l.in != nil && bytes.HasPrefix(name, l.in) {
		if l.skipped++; l.skipped < skipItems {
			return nil
		}
		// behind all that is in the directory: what ends with the byte after the slash
		l.from, l.more = string(l.in[:len(l.in)-1])+"0", true
		return sstable.ErrEnough
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
