package epoch

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
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
		return source.Attr{}, &TableError{of, 0, err}
	}
	st := a.Sys().(*syscall.Stat_t)
	return source.Attr{Identity: source.Identity{Size: a.Size(), MTime: a.ModTime().UnixNano()}, Mode: a.Mode(), UID: st.Uid, GID: st.Gid}, nil
}

// readTable returns the bytes of a version of a table.
func (v *Views) readTable(of string, version source.Identity) ([]byte, error) {
	if version.Size > maxTable {
		return nil, fmt.Errorf("it has %d MiB: want %d at most", version.Size>>20, maxTable>>20)
	}
	if file, given := v.o.Tables[of]; given {
		return os.ReadFile(file)
	}
	ctx := context.Background()
	// No other file has that key, and nothing stays in the cache.
	v.tables++
	h, err := v.o.Server.Resolve(ctx, 1<<63|serve.Key(v.tables), serve.File{Path: of, Identity: version}, transcode.Pipeline{}, serve.Stored)
	if err != nil {
		return nil, err
	}
	c, err := h.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer h.Drop()
	defer c.Release()
	data := make([]byte, c.Size())
	if n, err := c.ReadAt(data, 0); n < len(data) {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return data, nil
}

// newTableList lists the rows of a table, in their order. Their paths begin at the directory in
// which the table is, of one that the mount was given at that of the dataset.
func (v *Views) newTableList(version uint64, of string, stamp source.Identity) (*list, error) {
	if _, given := v.o.Tables[of]; given {
		if _, err := v.o.Server.Stat(of, false); err == nil {
			return nil, &TableError{of, 0, errors.New("the dataset has a file or directory of that name, too: rename the list")}
		}
	}
	data, err := v.readTable(of, stamp)
	if err != nil {
		return nil, &TableError{of, 0, err}
	}
	l := &list{tree: v.tree, version: version, dir: of, stamp: stamp}
	base := ""
	if _, given := v.o.Tables[of]; !given && path.Dir(of) != "." {
		base = path.Dir(of)
	}
	rows, labelled, err := parseTable(of, data)
	if err != nil {
		return nil, err
	}
	ids, missing, lost, err := find(v.tree, v.o.Registry, base, rows)
	if err != nil {
		return nil, err
	}
	if missing != nil {
		where := "the dataset"
		if base != "" {
			where = base + " of the dataset"
		}
		return nil, missing.errorf("there is no %s in %s; so it is with %d of %d rows", missing.path, where, lost, len(rows))
	}
	l.ids = ids
	if labelled {
		l.labelBy(rows)
	} else if err := l.labelByDirectory(base, rows); err != nil {
		return nil, err
	}
	l.countRepeats()
	return l, nil
}

// row is one of a table.
type row struct {
	table       string
	line        int
	path, label string
}

func (r *row) errorf(format string, args ...any) error {
	return &TableError{r.table, r.line, fmt.Errorf(format, args...)}
}

// parseTable reads a table; labelled reports whether it has labels.
func parseTable(table string, data []byte) (rows []row, labelled bool, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil && err != io.EOF {
		return nil, false, &TableError{table, 0, err}
	}
	pathAt := slices.IndexFunc(head, func(name string) bool { return slices.Contains(pathColumns, strings.TrimSpace(name)) })
	labelAt := slices.IndexFunc(head, func(name string) bool { return strings.TrimSpace(name) == labelColumn })
	if pathAt < 0 {
		return nil, false, &TableError{table, 1, fmt.Errorf("the first line has to name the columns, and one of them %s or %s; it is %q", pathColumns[0], pathColumns[1], strings.Join(head, ","))}
	}
	for {
		cells, err := r.Read()
		if err == io.EOF {
			return rows, labelAt >= 0, nil
		} else if err != nil {
			return nil, false, &TableError{table, 0, err} // it says the line
		}
		line, _ := r.FieldPos(pathAt)
		x := row{table: table, line: line, path: path.Clean(strings.Clone(cells[pathAt]))}
		if cells[pathAt] == "" || path.IsAbs(x.path) || x.path == ".." || strings.HasPrefix(x.path, "../") {
			return nil, false, x.errorf("%q is no path below the directory of the table", cells[pathAt])
		}
		if labelAt >= 0 {
			if x.label = strings.Clone(strings.TrimSpace(cells[labelAt])); x.label == "" {
				return nil, false, x.errorf("%s has no label", x.path)
			}
		}
		rows = append(rows, x)
	}
}

// find finds the samples of the rows, directory by directory. Missing is the first one that is not
// there, of so many.
func find(t Tree, registry *transcode.Registry, base string, rows []row) (ids []uint32, missing *row, lost int, err error) {
	ids = make([]uint32, len(rows))
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(path.Dir(rows[a].path), path.Dir(rows[b].path)) })
	last, there := "\x00", map[string]Member{}
	for _, i := range order {
		r := &rows[i]
		if dir := path.Dir(r.path); dir != last {
			last = dir
			clear(there)
			members, err := t.Members(within(base, dir))
			if err != nil && !errors.Is(err, iofs.ErrNotExist) {
				return nil, nil, 0, err
			}
			for _, m := range members {
				there[m.Name] = m
			}
		}
		switch m, ok := there[path.Base(r.path)]; {
		case !ok:
			if lost++; missing == nil || r.line < missing.line {
				missing = r
			}
		case m.Dir || !registry.IsSample(m.Name):
			return nil, nil, 0, r.errorf("%s is no picture", r.path)
		default:
			ids[i] = m.ID
		}
	}
	return ids, missing, lost, nil
}

func within(base, dir string) string {
	if dir = path.Join(base, dir); dir == "." {
		return ""
	}
	return dir
}

// labelBy takes the labels from the rows: as they are, if all of them are whole numbers;
// otherwise they are the names of classes.
func (l *list) labelBy(rows []row) {
	l.labels = make([]int64, len(rows))
	for i := range rows {
		n, err := strconv.ParseInt(rows[i].label, 10, 64)
		if err != nil {
			l.labelByName(rows)
			return
		}
		l.labels[i] = n
	}
}

func (l *list) labelByName(rows []row) {
	seen := map[string]int64{}
	for i := range rows {
		seen[rows[i].label] = 0
	}
	for name := range seen {
		l.classes = append(l.classes, name)
	}
	slices.Sort(l.classes)
	for i, name := range l.classes {
		seen[name] = int64(i)
	}
	for i := range rows {
		l.labels[i] = seen[rows[i].label]
	}
}

// labelByDirectory gives the samples the labels that they have in the directory of the table: the
// classes are all of its directories, whether the table has samples of them or not.
func (l *list) labelByDirectory(base string, rows []row) error {
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
	l.labels = make([]int64, len(rows))
	for i := range rows {
		class, _, below := strings.Cut(rows[i].path, "/")
		switch {
		case len(l.classes) == 0:
			l.labels[i] = noClass
		case !below:
			return rows[i].errorf("%s is in the directory of no class: give the table a column %s", rows[i].path, labelColumn)
		default:
			l.labels[i] = number[class]
		}
	}
	return nil
}

// countRepeats numbers the rows of one sample: each of them is drawn anew.
func (l *list) countRepeats() {
	seen := make(map[uint32]uint32, len(l.ids))
	for i, id := range l.ids {
		if n := seen[id]; n > 0 {
			if l.repeats == nil {
				l.repeats = make([]uint32, len(l.ids))
			}
			l.repeats[i] = n
		}
		seen[id]++
	}
}
