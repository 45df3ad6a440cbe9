package epoch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// A table is a file of the dataset, or one that the mount was given, in which samples are
// listed, a row each: CSV with the names of the columns in the first row. Its name ends in
// TableExt.

// TableExt is what the name of a table ends in.
const TableExt = ".csv"

// The columns of a table. Others mean nothing here.
const (
	labelColumn = "label"
	maxTable    = 1 << 30 // bytes
)

// pathColumns are the names that the column of paths may have: the second one is that of
// Hugging Face's metadata.csv.
var pathColumns = []string{"path", "file_name"}

// TableError is what is wrong with a table.
type TableError struct {
	Table string
	Line  int // 0: of the whole
	Err   error
}

func (e *TableError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Table, e.Err)
	}
	return fmt.Sprintf("%s, line %d: %v", e.Table, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *TableError) Unwrap() error { return e.Err }

// isTable reports whether that is the name of a table, and not of a directory.
func (v *Views) isTable(of string) bool {
	if _, given := v.o.Tables[of]; given {
		return true
	}
	if path.Ext(of) != TableExt {
		return false
	}
	_, err := v.tree.Members(of)
	return errors.Is(err, iofs.ErrNotExist)
}

// stat returns the attributes of a directory or table, which tell versions of a table apart.
func (v *Views) stat(of string) (source.Attr, error) {
	file, given := v.o.Tables[of]
	if !given {
		return v.o.Server.Stat(of, true)
	}
	a, err := os.Stat(file)
	if err != nil {
		return source.Attr{}, &TableError{Table: of, Err: err}
	}
	st := a.Sys().(*syscall.Stat_t)
	return source.Attr{Identity: source.Identity{Size: a.Size(), MTime: a.ModTime().UnixNano()}, Mode: a.Mode(), UID: st.Uid, GID: st.Gid}, nil
}

// readTable reads the rows of a version of a table.
func (v *Views) readTable(of string, version source.Identity) (*rows, error) {
	if version.Size > maxTable {
		return nil, &TableError{Table: of, Err: fmt.Errorf("it has %d MiB: want %d at most", version.Size>>20, maxTable>>20)}
	}
	if file, given := v.o.Tables[of]; given {
		f, err := os.Open(file)
		if err != nil {
			return nil, &TableError{Table: of, Err: err}
		}
		defer f.Close()
		return parseVersion(of, f, version)
	}
	ctx := context.Background()
	// No other file has that key, and nothing stays in the cache.
	v.tables++
	h, err := v.o.Server.Resolve(ctx, 1<<63|serve.Key(v.tables), serve.File{Path: of, Identity: version}, transcode.Pipeline{}, serve.Stored)
	if err != nil {
		return nil, &TableError{Table: of, Err: err}
	}
	c, err := h.Open(ctx)
	if err != nil {
		return nil, &TableError{Table: of, Err: err}
	}
	defer h.Drop()
	defer c.Release()
	return parseVersion(of, c, version)
}

// parseVersion reads a table, which may have become longer or shorter.
func parseVersion(of string, from io.ReaderAt, version source.Identity) (*rows, error) {
	in := io.NewSectionReader(from, 0, version.Size)
	rows, err := parseTable(of, in)
	if end, _ := in.Seek(0, io.SeekCurrent); err == nil && end < version.Size {
		return nil, &TableError{Table: of, Err: io.ErrUnexpectedEOF}
	}
	return rows, err
}

// newTableList lists the rows of a table, in their order. Their paths begin at the directory in
// which the table is, of one that the mount was given at that of the dataset.
func (v *Views) newTableList(version uint64, of string, stamp source.Identity) (*list, error) {
	if _, given := v.o.Tables[of]; given {
		if _, err := v.o.Server.Stat(of, false); err == nil {
			return nil, &TableError{Table: of, Err: errors.New("the dataset has a file or directory of that name, too: rename the list")}
		}
	}
	rows, err := v.readTable(of, stamp)
	if err != nil {
		return nil, err
	}
	l := &list{tree: v.tree, version: version, dir: of, stamp: stamp}
	base := ""
	if _, given := v.o.Tables[of]; !given && path.Dir(of) != "." {
		base = path.Dir(of)
	}
	ids, missing, lost, err := find(v.tree, v.o.Registry, base, rows)
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		where := "the dataset"
		if base != "" {
			where = base + " of the dataset"
		}
		return nil, rows.errorf(missing, "there is no %s in %s; so it is with %d of %d rows", rows.path(missing), where, lost, rows.len())
	}
	l.ids = ids
	if rows.labels != nil {
		l.labelBy(rows)
	} else if err := l.labelByDirectory(base, rows); err != nil {
		return nil, err
	}
	l.countRepeats()
	return l, nil
}

// rows are those of a table: millions, so no row has a value of its own that the collector of garbage looks at.
type rows struct {
	table  string
	paths  []byte   // one behind the other
	ends   []uint32 // of each path
	lines  []uint32 // of each row in the file; nil: they are in none
	labels []uint32 // of each row, in texts; nil: the table has none
	texts  []string
}

func (r *rows) len() int { return len(r.ends) }

func (r *rows) add(path string) {
	r.paths = append(r.paths, path...)
	r.ends = append(r.ends, uint32(len(r.paths)))
}

// split is the path of the i-th row: its directory, and its name.
func (r *rows) split(i int) (dir, name []byte) {
	path := r.paths[:r.ends[i]]
	if i > 0 {
		path = path[r.ends[i-1]:]
	}
	slash := bytes.LastIndexByte(path, '/')
	return path[:max(slash, 0)], path[slash+1:]
}

func (r *rows) path(i int) string {
	dir, name := r.split(i)
	return path.Join(string(dir), string(name))
}

func (r *rows) errorf(i int, format string, args ...any) error {
	e := &TableError{Table: r.table, Err: fmt.Errorf(format, args...)}
	if r.lines != nil {
		e.Line = int(r.lines[i])
	}
	return e
}

// parseTable reads a table.
func parseTable(table string, from io.Reader) (*rows, error) {
	buf := bufio.NewReader(from)
	if mark, err := buf.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = buf.Discard(3)
	}
	r := csv.NewReader(buf)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil && err != io.EOF {
		return nil, &TableError{Table: table, Err: err}
	}
	pathAt := slices.IndexFunc(head, func(name string) bool { return slices.Contains(pathColumns, strings.TrimSpace(name)) })
	labelAt := slices.IndexFunc(head, func(name string) bool { return strings.TrimSpace(name) == labelColumn })
	if pathAt < 0 {
		return nil, &TableError{table, 1, fmt.Errorf("the first line has to name the columns, and one of them %s or %s; it is %q", pathColumns[0], pathColumns[1], strings.Join(head, ","))}
	}
	all := &rows{table: table}
	number := map[string]uint32{} // of labels
	if labelAt >= 0 {
		all.labels = []uint32{}
	}
	for {
		cells, err := r.Read()
		if err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, &TableError{Table: table, Err: err} // it says the line
		}
		line, _ := r.FieldPos(pathAt)
		all.lines = append(all.lines, uint32(line))
		name := path.Clean(cells[pathAt])
		all.add(name)
		if cells[pathAt] == "" || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
			return nil, all.errorf(all.len()-1, "%q is no path below the directory of the table", cells[pathAt])
		}
		if labelAt < 0 {
			continue
		}
		label := strings.TrimSpace(cells[labelAt])
		if label == "" {
			return nil, all.errorf(all.len()-1, "%s has no label", name)
		}
		n, known := number[label]
		if !known {
			n = uint32(len(all.texts))
			label = strings.Clone(label)
			number[label] = n
			all.texts = append(all.texts, label)
		}
		all.labels = append(all.labels, n)
	}
}

// find finds the samples of the rows, directory by directory. Missing is the first one that is not
// there, of so many.
func find(t Tree, registry *transcode.Registry, base string, rows *rows) (ids []uint32, missing, lost int, err error) {
	ids = make([]uint32, rows.len())
	order := upTo(rows.len())
	slices.SortFunc(order, func(a, b uint32) int {
		one, _ := rows.split(int(a))
		other, _ := rows.split(int(b))
		return cmp.Or(bytes.Compare(one, other), cmp.Compare(a, b))
	})
	var last []byte
	var there map[string]Member
	for _, i := range order {
		dir, name := rows.split(int(i))
		if there == nil || !bytes.Equal(dir, last) {
			last, there = dir, map[string]Member{}
			members, err := t.Members(path.Join(base, string(dir)))
			if err != nil && !errors.Is(err, iofs.ErrNotExist) {
				return nil, 0, 0, err
			}
			for _, m := range members {
				there[m.Name] = m
			}
		}
		switch m, ok := there[string(name)]; {
		case !ok:
			if lost++; lost == 1 || int(i) < missing {
				missing = int(i)
			}
		case m.Dir || !registry.IsSample(m.Name):
			return nil, 0, 0, rows.errorf(int(i), "%s is no picture", rows.path(int(i)))
		default:
			ids[i] = m.ID
		}
	}
	return ids, missing, lost, nil
}

// labelBy takes the labels from the rows: as they are, if all of them are whole numbers;
// otherwise they are the names of classes.
func (l *list) labelBy(rows *rows) {
	number := make([]int64, len(rows.texts))
	for i, text := range rows.texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			l.classes = slices.Sorted(slices.Values(rows.texts))
			for i, text := range rows.texts {
				class, _ := slices.BinarySearch(l.classes, text)
				number[i] = int64(class)
			}
			break
		}
		number[i] = n
	}
	l.labels = make([]int64, rows.len())
	for i, n := range rows.labels {
		l.labels[i] = number[n]
	}
}

// labelByDirectory gives the samples the labels that they have in the directory of the table: the
// classes are all of its directories, whether the table has samples of them or not.
func (l *list) labelByDirectory(base string, rows *rows) error {
	members, err := l.tree.Members(base)
	if err != nil {
		return err
	}
	number := map[string]int64{}
	for _, m := range members {
		if m.Dir {
			number[m.Name] = int64(len(l.classes))
			l.classes = append(l.classes, m.Name)
		}
	}
	l.labels = make([]int64, rows.len())
	for i := range l.labels {
		dir, _ := rows.split(i)
		class, _, _ := bytes.Cut(dir, []byte("/"))
		switch {
		case len(l.classes) == 0:
			l.labels[i] = noClass
		case len(class) == 0:
			return rows.errorf(i, "%s is in the directory of no class: give the table a column %s", rows.path(i), labelColumn)
		default:
			l.labels[i] = number[string(class)]
		}
	}
	return nil
}

// countRepeats numbers the rows of one sample: each of them is drawn anew.
func (l *list) countRepeats() {
	order := upTo(len(l.ids))
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Or(cmp.Compare(l.ids[a], l.ids[b]), cmp.Compare(a, b)) })
	for k := 1; k < len(order); k++ {
		if before, i := order[k-1], order[k]; l.ids[before] == l.ids[i] {
			if l.repeats == nil {
				l.repeats = make([]uint32, len(l.ids))
			}
			l.repeats[i] = l.repeats[before] + 1
		}
	}
}

// columnSuffix is behind the name of a column.
const columnSuffix = ".jsonl"

// columns are what the dataset says of the samples of a list beside their labels.
type columns struct {
	mu   sync.Mutex
	text []byte   // Options.Metadata
	at   []uint64 // 1 + where the line of each sample begins in text; 0: there is none
}

var fileName = []byte(`{"file_name":"`)

// cutName returns the path that a line of Options.Metadata is about.
func cutName(line []byte) (name []byte) {
	rest, is := bytes.CutPrefix(line, fileName)
	name, _, whole := bytes.Cut(rest, []byte{'"'})
	switch {
	case !is || !whole:
		return nil
	case !bytes.Contains(name, []byte{'\\'}):
		return name
	}
	var text string // seldom
	if json.NewDecoder(bytes.NewReader(line[bytes.IndexByte(line, ':')+1:])).Decode(&text) != nil {
		return nil
	}
	return []byte(text)
}

// find finds the lines of all samples of a list, unless it has: 8 bytes a sample.
func (c *columns) find(l *list, text []byte) (at []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != nil && &c.text[0] == &text[0] { // an archive that changed has another text
		return c.at
	}
	seed := maphash.MakeSeed()
	lines := make(map[uint64]uint64, len(l.ids)) // by the hash of a path: line compares the path
	from := uint64(1)
	for line := range bytes.Lines(text) {
		lines[maphash.Bytes(seed, cutName(line))] = from
		from += uint64(len(line))
	}
	at = make([]uint64, len(l.ids))
	for i := range at {
		at[i] = lines[maphash.String(seed, l.path(i))]
	}
	c.text, c.at = text, at
	return at
}

// column is a file of the values of a column, each in a line of JSON, of the samples of a batch. The error is
// [io/fs.ErrNotExist] where there is no such column.
func (w *View) column(k int, name string) ([]byte, error) {
	if w.of.o.Metadata == nil {
		return nil, iofs.ErrNotExist
	}
	text, err := w.of.o.Metadata()
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, iofs.ErrNotExist
	}
	l, known := w.epoch.list, false
	at := l.columns.find(l, text)
	data, err := w.lines(k, func(i int, path string) (string, error) {
		if at[i] == 0 {
			return "null", nil // it is in an archive without columns
		}
		line, _, _ := bytes.Cut(text[at[i]-1:], []byte("\n"))
		if string(cutName(line)) != path {
			return "", fmt.Errorf("the columns of %s are not known: the metadata is that of another file", path)
		}
		var row map[string]json.RawMessage
		if err := json.Unmarshal(line, &row); err != nil {
			return "", fmt.Errorf("the columns of %s: %w", path, err)
		}
		value, has := row[name]
		if known = known || has; !has {
			return "null", nil
		}
		return string(value), nil
	})
	if err == nil && !known {
		err = iofs.ErrNotExist
	}
	return data, err
}
