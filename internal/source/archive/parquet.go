package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/parquet"
)

// Unlabelled is the directory of samples whose source gives them the label -1, and of rows of Parquet files without one. It comes behind
// the directories of all classes, so that ImageFolder numbers these as the source does.
const Unlabelled = "unlabelled"

// tableFile is what a scan knows of a Parquet file.
type tableFile struct {
	*parquet.File
	id       source.Identity
	columns  []int // of pictures, or other files
	label    int   // column, or -1
	classes  []string
	split    string // directory
	first    int64  // number of its first row, in the split
	digits   int    // of numbers of rows
	fallback map[int]string
}

// findTables reads the footers of the Parquet files among the archives: rows are numbered through all of a split.
func (s *scan) findTables(ctx context.Context) error {
	s.tables = make([]*tableFile, len(s.shards))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range s.shards {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			t, err := s.findTable(name)
			if t != nil {
				s.tables[i] = t
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	bytes := int64(0)
	for _, t := range s.tables {
		if t != nil {
			bytes += t.id.Size
		}
	}
	s.atOnce = bytes <= s.o.AtOnce
	return s.splits()
}

// findTable is nil where an archive is something else, or damaged.
func (s *scan) findTable(name string) (*tableFile, error) {
	f, err := s.under.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	f.Scattered()
	if k, err := kindOf(f, name); err != nil || k != parquetKind {
		return nil, err
	}
	t := &tableFile{id: f.Identity, fallback: map[int]string{}}
	r := &failing{ReaderAt: f}
	if t.File, err = parquet.Read(r, f.Identity.Size); err == nil {
		err = t.choose()
	}
	if cause := errors.Join(r.err, f.Verify()); cause != nil {
		return nil, cause
	}
	if err != nil {
		t.File = nil
		return t, s.damage(name, err)
	}
	return t, nil
}

// choose finds the columns of files, and that of labels.
func (t *tableFile) choose() error {
	var plain []int
	var lists string
	t.label = -1
	for i := range t.Columns {
		c := &t.Columns[i]
		feature := t.Features[c.Path[0]]
		switch {
		case c.Repeated():
			if c.Type == parquet.ByteArray && c.Path[len(c.Path)-1] == "bytes" {
				lists = fmt.Sprintf("; column %q has lists of files, which are not read", c.Path[0])
			}
		case len(c.Path) == 2 && c.Path[1] == "bytes" && c.Type == parquet.ByteArray:
			t.columns = append(t.columns, i)
		case len(c.Path) != 1:
		case c.Type == parquet.ByteArray && !c.Text:
			plain = append(plain, i)
		case feature.Type == "ClassLabel" && (c.Type == parquet.Int64 || c.Type == parquet.Int32):
			if t.label < 0 || c.Path[0] == "label" || c.Path[0] == "labels" {
				t.label, t.classes = i, feature.Names
			}
		}
	}
	if len(t.columns) == 0 {
		t.columns = plain
	}
	if len(t.columns) == 0 {
		return errors.New("it has no column of files: of bytes, or of structs of bytes and path" + lists)
	}
	for _, c := range t.columns {
		for _, g := range t.Groups {
			if err := g.Chunks[c].Codec.Unread(); err != nil {
				return err
			}
		}
	}
	if len(t.classes) > maxClasses {
		return fmt.Errorf("it has %d classes, and at most %d are shown", len(t.classes), maxClasses)
	}
	return nil
}

var (
	// numbered is a file of a split that has several: train-00000-of-00005, part-0, 0000.
	numbered = regexp.MustCompile(`^(.*?)[-_.]?\d+(-of-\d+)?(-[0-9a-f]{8,})?$`)
	// splitNames are the directories that say which split their files are of, as `datasets` has it.
	splitNames = []string{"train", "training", "test", "testing", "eval", "evaluation", "validation", "valid", "val", "dev"}
)

// splits divides the Parquet files into splits, by their names, and numbers their rows.
func (s *scan) splits() error {
	common := s.common()
	rows, classes := map[string]int64{}, map[string]*tableFile{}
	for i, t := range s.tables {
		if t == nil || t.File == nil {
			continue
		}
		var given bool
		if t.split, given = s.o.Dirs[s.shards[i]]; !given {
			t.split = splitOf(s.shards[i], common)
		}
		first := classes[t.split]
		if first == nil {
			first = t
			classes[t.split] = t
		}
		if !slices.Equal(first.classes, t.classes) || (first.label < 0) != (t.label < 0) {
			t.File = nil
			if err := s.damage(s.shards[i], fmt.Errorf("its classes are not those of other files of %s", t.split)); err != nil {
				return err
			}
			continue
		}
		t.first = rows[t.split]
		rows[t.split] += t.Rows
	}
	for _, t := range s.tables {
		if t != nil && t.File != nil {
			t.digits = len(strconv.FormatInt(max(rows[t.split]-1, 0), 10))
		}
	}
	return nil
}

// classDirs calls visit with the directories of all classes, with a slash behind: they are there without samples, too.
func (s *scan) classDirs(visit func(dir string) error) error {
	seen := map[string]bool{}
	for _, t := range s.tables {
		if t == nil || t.File == nil || seen[t.split] { // the classes of a split are those of its first file
			continue
		}
		seen[t.split] = true
		for c := range t.classes {
			for _, k := range t.columns {
				if err := visit(t.dir(k) + t.class(int64(c)) + "/"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// common is the directory that all Parquet files are in, with a slash behind.
func (s *scan) common() string {
	var dirs []string
	for i, t := range s.tables {
		if t != nil {
			dirs = append(dirs, path.Dir(s.shards[i])+"/")
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	common := slices.Min(dirs)
	for last := slices.Max(dirs); !strings.HasPrefix(last, common); {
		common = common[:strings.LastIndexByte(common[:len(common)-1], '/')+1]
	}
	return common
}

// splitOf is the directory of the rows of a Parquet file: the split, below what tells it from others of that name.
func splitOf(name, common string) string {
	dir, stem := path.Split(name)
	stem = strings.TrimSuffix(stem, path.Ext(stem))
	if m := numbered.FindStringSubmatch(stem); m != nil {
		stem = m[1]
	}
	parent := path.Base(dir)
	if slices.Contains(splitNames, parent) && !slices.Contains(splitNames, stem) {
		stem, dir = parent, strings.TrimSuffix(dir, parent+"/")
	}
	return path.Join(strings.TrimPrefix(dir, common), cmp.Or(safe(stem), "train"))
}

// dir is the directory of the files of a column, with a slash behind; empty is the root. Where there are several columns,
// each has its own.
func (t *tableFile) dir(column int) string {
	split := t.split
	if split != "" {
		split += "/"
	}
	if len(t.columns) == 1 {
		return split
	}
	return split + safe(t.Columns[column].Path[0]) + "/"
}

// class is the directory of a class: its number, in as many digits as the last one has, and its name.
func (t *tableFile) class(c int64) string {
	return fmt.Sprintf("%0*d-%s", max(classDigits, len(strconv.Itoa(len(t.classes)-1))), c, labelOf(t.classes[c]))
}

// scanTable passes on the rows of a Parquet file.
func (s *scan) scanTable(ctx context.Context, shard int, f *source.File, emit func(member) error) error {
	t := s.tables[shard]
	f.Scattered()
	row := int64(0)
	for g := range t.Groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		labels, err := t.labelsOf(f, g)
		if err != nil {
			return fmt.Errorf("column %q, rows from %d on: %w", t.Columns[t.label].Path[0], row, err)
		}
		for _, c := range t.columns {
			if err := s.scanColumn(shard, f, g, c, row, labels, emit); err != nil {
				return err
			}
		}
		row += t.Groups[g].Rows
	}
	return nil
}

// labelsOf returns the labels of the rows of a group; one that is none is -1.
func (t *tableFile) labelsOf(f *source.File, group int) ([]int64, error) {
	if t.label < 0 {
		return nil, nil
	}
	labels := make([]int64, t.Groups[group].Rows)
	err := t.Integers(f, group, t.label, func(row, v int64, null bool) {
		if labels[row] = v; null || v < 0 || v >= int64(len(t.classes)) {
			labels[row] = -1
		}
	})
	return labels, err
}

// names returns the paths of the files of a column in a group, whose first row has a number in its file.
func (t *tableFile) names(f *source.File, group, column int, first int64, labels []int64) ([]string, error) {
	all := make([]string, t.Groups[group].Rows)
	if k := t.paths(column); k >= 0 {
		err := t.Texts(f, group, k, func(row int64, v []byte) { all[row] = extension(string(v)) })
		if err != nil {
			return nil, fmt.Errorf("column %q, rows from %d on: %w", t.Columns[k].Path, first, err)
		}
	}
	for row, ext := range all {
		class := ""
		if labels != nil {
			if class = Unlabelled + "/"; labels[row] >= 0 {
				class = t.class(labels[row]) + "/"
			}
		}
		if ext == "" {
			ext = t.extension(f, column)
		}
		all[row] = fmt.Sprintf("%s%s%0*d%s", t.dir(column), class, t.digits, t.first+first+int64(row), ext)
	}
	return all, nil
}

// scanColumn passes on the files of a column in a group. Where they lie is located later, unless there is little to read, or
// the group may have nulls.
func (s *scan) scanColumn(shard int, f *source.File, group, column int, first int64, labels []int64, emit func(member) error) error {
	t := s.tables[shard]
	paths, err := t.names(f, group, column, first, labels)
	if err != nil {
		return err
	}
	var values []parquet.Value
	chunk := &t.Groups[group].Chunks[column]
	if !chunk.Whole || s.atOnce {
		values, _ = t.Locate(f, group, column) // damage is told when a file behind it is read
	}
	for row, at := range paths {
		size := min(max(chunk.Inflated/int64(len(paths)), 0), parquet.MaxPage)
		m := member{path: at, entry: entry{shard: shard, codec: rowCodec, size: size}}
		m.column, m.row = int64(column), first+int64(row)
		switch {
		case row >= len(values):
		case values[row].Null:
			if m.why = "its row has no bytes"; t.paths(column) >= 0 {
				m.why = onlyPath
			}
		default:
			m.locate(&values[row])
		}
		if err := emit(m); err != nil {
			return err
		}
	}
	return nil
}

// onlyPath is what Dataset.to_parquet of `datasets` makes of files that it has not read.
const onlyPath = "its row has no bytes, but the path of a file at most: datasets writes files into the table if save_to_disk and load_from_disk come before to_parquet"

// paths is the column of the paths of a column of files, or -1.
func (t *tableFile) paths(column int) int {
	of := t.Columns[column].Path
	return slices.IndexFunc(t.Columns, func(c parquet.Column) bool {
		return len(of) == 2 && len(c.Path) == 2 && c.Path[0] == of[0] && c.Path[1] == "path" && c.Type == parquet.ByteArray && !c.Repeated()
	})
}

var extensions = regexp.MustCompile(`^\.[0-9A-Za-z]{1,8}$`)

// extension is that of a path, if it has one.
func extension(name string) string {
	if ext := path.Ext(name); extensions.MatchString(ext) {
		return ext
	}
	return ""
}

// extension is what the first picture of a file is, for rows whose path does not say it: to look at every row would be to
// read the whole file before it has names. Views go by what a file is, whatever its name says.
func (t *tableFile) extension(f *source.File, column int) string {
	if ext := t.fallback[column]; ext != "" {
		return ext
	}
	ext := ".bin"
	for g := range t.Groups {
		v, err := t.First(f, g, column)
		if err == nil && len(v) > 0 {
			ext = sniff(v)
			break
		}
	}
	t.fallback[column] = ext
	return ext
}

func sniff(b []byte) string {
	if bytes.HasPrefix(b, []byte("II*\x00")) || bytes.HasPrefix(b, []byte("MM\x00*")) {
		return ".tif"
	}
	ext, ok := map[string]string{
		"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp",
		"audio/wave": ".wav", "audio/mpeg": ".mp3", "application/ogg": ".ogg", "video/mp4": ".mp4", "application/pdf": ".pdf",
	}[http.DetectContentType(b)]
	if !ok {
		return ".bin"
	}
	return ext
}
