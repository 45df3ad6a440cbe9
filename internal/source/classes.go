package source

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// ClassDigits is how many digits the number of a class has in the name of its directory, at least.
	ClassDigits = 4
	// MaxClasses bounds the directories that are made for classes without a sample.
	MaxClasses = 100_000
)

// SafeName is a text as the name of a file or directory.
func SafeName(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' || r == '\x7f' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(text, "_"))
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "_")
	}
	return text
}

// Classes is a dataset whose labels are in a list: files that the list names are shown in directories of their classes, which
// are made beside them. The files of the dataset are looked through once; one that comes later stays where it is.
type Classes struct {
	Dataset
	shown map[string]string  // where files are in the dataset, by where they are shown
	moved map[string]bool    // files that are shown elsewhere
	dirs  map[string][]Entry // what is in directories beside what the dataset has there
	// Notes say what of the list and of the dataset does not belong together.
	Notes []string
}

// listed is a line of a list of classes.
type listed struct {
	class string
	dir   string // where its files are
	found bool
}

// none is that the list says of a file that it has no class, as -1 does.
func (l *listed) none() bool {
	n, err := strconv.Atoi(l.class)
	return err == nil && n < 0
}

// WithClasses shows a dataset by the classes of a list, see [Classes].
func WithClasses(d Dataset, list string) (*Classes, error) {
	data, err := os.ReadFile(list)
	if err != nil {
		return nil, fmt.Errorf("list of classes: %w", err)
	}
	lines, err := readClasses(data)
	if err != nil {
		return nil, fmt.Errorf("list of classes %s: %w", list, err)
	}
	c := &Classes{Dataset: d, shown: map[string]string{}, moved: map[string]bool{}, dirs: map[string][]Entry{}}
	dirOf, all := classDirs(lines)
	in := map[string]bool{} // directories that have classes
	var without, missing sum
	for file, err := range Files(d.List) {
		if err != nil {
			return nil, err
		}
		line, err := find(lines, file)
		if err != nil {
			return nil, fmt.Errorf("list of classes %s: %w", list, err)
		}
		if line == nil {
			without.add(file)
			continue
		}
		line.found, line.dir = true, path.Dir(file)
		if line.none() {
			without.add(file)
			continue
		}
		in[parent(file)] = true
		class := path.Join(path.Dir(file), dirOf[line.class])
		c.moved[file] = true
		c.shown[path.Join(class, path.Base(file))] = file
		c.dirs[class] = append(c.dirs[class], Entry{Name: path.Base(file)})
	}
	for name, line := range lines {
		if !line.found {
			missing.add(name)
		}
	}
	if len(c.moved) == 0 {
		return nil, fmt.Errorf("list of classes %s: none of its %d names is in %s, such as %s", list, len(lines), d.Root(), missing.examples())
	}
	for dir := range in {
		for _, class := range all {
			at := path.Join(dir, class)
			c.dirs[dir] = append(c.dirs[dir], Entry{Name: class, Dir: true})
			c.dirs[at] = c.dirs[at][:len(c.dirs[at]):len(c.dirs[at])] // it is there, also if it is empty
			if err := c.free(at); err != nil {
				return nil, err
			}
		}
	}
	if missing.n > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d of %d names of %s are not in the dataset, such as %s", missing.n, len(lines), list, missing.examples()))
	}
	if without.n > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d files have no class in %s and stay where they are, such as %s", without.n, list, without.examples()))
	}
	return c, nil
}

// sum counts names, and keeps the first by alphabet.
type sum struct {
	n     int
	first []string
}

func (s *sum) add(name string) {
	s.n++
	at, _ := slices.BinarySearch(s.first, name)
	s.first = slices.Insert(s.first, at, name)
	s.first = s.first[:min(len(s.first), 3)]
}

func (s *sum) examples() string { return strings.Join(s.first, ", ") }

// headings are what the second column of a CSV file is called, where its first line has no sample.
var headings = []string{"class", "classes", "label", "labels", "category", "target", "class_id", "label_id", "predictionstring"}

// readClasses reads a list: CSV of name and class, or lines of name, blank and class, as the lists of ILSVRC are. Further columns
// of CSV say other things.
func readClasses(data []byte) (map[string]*listed, error) {
	lines := map[string]*listed{}
	add := func(n int, name, class string) error {
		name = strings.TrimPrefix(path.Clean("/"+name), "/")
		if name == "" || class == "" {
			return fmt.Errorf("line %d has no name and class", n)
		}
		if last := lines[name]; last != nil && last.class != class {
			return fmt.Errorf("line %d: %s has the class %s, and had %s before", n, name, class, last.class)
		}
		lines[name] = &listed{class: class}
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if !bytes.Contains(first, []byte(",")) {
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			blank := strings.LastIndexAny(line, " \t")
			if err := add(n, strings.TrimSpace(line[:max(blank, 0)]), line[blank+1:]); err != nil {
				return nil, fmt.Errorf("%w: a line is NAME,CLASS or NAME CLASS", err)
			}
		}
		return lines, nil
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1
	boxes := false
	for n := 1; ; n++ {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		if len(row) < 2 {
			return nil, fmt.Errorf("line %d has no name and class: a line is NAME,CLASS or NAME CLASS", n)
		}
		name, class := strings.TrimSpace(row[0]), strings.TrimSpace(row[1])
		if n == 1 && slices.Contains(headings, strings.ToLower(class)) {
			boxes = strings.EqualFold(class, "PredictionString") // Kaggle's lists of ILSVRC: a class, and where it is in the image
			continue
		}
		if boxes {
			class, _, _ = strings.Cut(class, " ")
		}
		if err := add(n, name, class); err != nil {
			return nil, err
		}
	}
}

// classDirs returns the directory of each class, and all directories, some of them twice. Numbers are padded, and those between them get
// directories, too, so that the order of names is that of the numbers.
func classDirs(lines map[string]*listed) (dirOf map[string]string, all []string) {
	number := func(class string) (int, bool) {
		n, err := strconv.Atoi(class)
		return n, err == nil && n >= 0
	}
	dirOf = map[string]string{}
	most := -1
	for _, line := range lines {
		if line.none() {
			continue
		}
		dirOf[line.class] = SafeName(line.class)
		if n, is := number(line.class); is {
			most = max(most, n)
		}
	}
	digits := max(ClassDigits, len(strconv.Itoa(most)))
	for class := range dirOf {
		if n, is := number(class); is {
			dirOf[class] = fmt.Sprintf("%0*d", digits, n)
		}
	}
	for _, dir := range dirOf {
		all = append(all, dir)
	}
	if most < MaxClasses {
		for n := range most + 1 {
			all = append(all, fmt.Sprintf("%0*d", digits, n))
		}
	}
	return dirOf, all
}

// find returns the line of a file: that of its path, or of its name, with or without its extension.
func find(lines map[string]*listed, file string) (*listed, error) {
	stem := strings.TrimSuffix(file, path.Ext(file))
	for _, key := range []string{file, stem, path.Base(file), path.Base(stem)} {
		line := lines[key]
		if line == nil {
			continue
		}
		if line.found && line.dir != path.Dir(file) {
			return nil, fmt.Errorf("%s is in %s and in %s: write paths into the list", key, line.dir, path.Dir(file))
		}
		return line, nil
	}
	return nil, nil
}

// free refuses a directory of a class in which the dataset has another file of a name that is shown there.
func (c *Classes) free(dir string) error {
	entries, err := c.Dataset.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := c.Dataset.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("directory of a class: %w", err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if other := c.shown[name]; other != "" && !c.moved[name] {
			return fmt.Errorf("%s would be shown as %s, and the dataset has a file there", other, name)
		}
	}
	return nil
}

func parent(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// Moved is the path that a file has in the dataset, if it is shown elsewhere; else it is empty.
func (c *Classes) Moved(name string) string { return c.shown[name] }

// in returns where a file is in the dataset.
func (c *Classes) in(op, name string) (string, error) {
	if file, is := c.shown[name]; is {
		return file, nil
	}
	if c.moved[name] {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return name, nil
}

// List implements [Tree].
func (c *Classes) List(dir string) ([]Entry, error) {
	more, here := c.dirs[dir]
	entries, err := c.Dataset.List(dir)
	if err != nil && (!here || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if !here {
		return entries, nil
	}
	all := slices.Clone(more)
	for _, e := range entries {
		if !c.moved[path.Join(dir, e.Name)] {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b Entry) bool { return a.Name == b.Name }), nil
}

// Stat implements [Tree].
func (c *Classes) Stat(name string) (Attr, error) { return c.stat(name, c.Dataset.Stat) }

// Fresh implements [Tree].
func (c *Classes) Fresh(name string) (Attr, error) { return c.stat(name, c.Dataset.Fresh) }

func (c *Classes) stat(name string, stat func(string) (Attr, error)) (Attr, error) {
	file, err := c.in("stat", name)
	if err != nil {
		return Attr{}, err
	}
	a, err := stat(file)
	if _, is := c.dirs[name]; !is || !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if a, err = c.stat(parent(name), stat); err == nil { // who may read the directory above may read that of a class
		h := fnv.New64a()
		_, _ = io.WriteString(h, name)
		a.ID ^= h.Sum64()
	}
	return a, err
}

// Open implements [Dataset].
func (c *Classes) Open(name string) (*File, error) {
	file, err := c.in("open", name)
	if err != nil {
		return nil, err
	}
	return c.Dataset.Open(file)
}

// OpenAs implements [Dataset].
func (c *Classes) OpenAs(name string, id Identity) (*File, error) {
	file, err := c.in("open", name)
	if err != nil {
		return nil, err
	}
	return c.Dataset.OpenAs(file, id)
}
