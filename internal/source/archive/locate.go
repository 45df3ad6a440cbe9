package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/parquet"
)

// kind is a format of archives.
type kind int

const (
	noKind kind = iota
	tarKind
	zipKind
	parquetKind
	recordKind // TFRecord
)

// kindOf looks at the beginning of a file, not at its name.
func kindOf(f io.ReaderAt, name string) (kind, error) {
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return noKind, fmt.Errorf("%s: %w", name, err)
	}
	head = head[:n]
	switch {
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return tarKind, nil
	case strings.HasPrefix(string(head), "PK\x03\x04"), strings.HasPrefix(string(head), "PK\x05\x06"):
		return zipKind, nil
	case strings.HasPrefix(string(head), parquet.Magic):
		return parquetKind, nil
	case source.IsTFRecord(string(head)):
		return recordKind, nil
	case strings.HasSuffix(strings.ToLower(name), ".tar"): // from before 1988, or damaged at its beginning
		return tarKind, nil
	}
	return noKind, nil
}

// Is reports whether a name is that of an archive that can be mounted.
func Is(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".tar", ".zip", ".parquet":
		return true
	}
	return recordExt.MatchString(name)
}

// recordExt is what names of TFRecord files end with: .tfrecord, or .tfrecord-00000-of-00010.
var recordExt = regexp.MustCompile(`(?i)(\.tfrecords?)(-\d+-of-\d+)?$`)

// unnamed is the name of a file that is one of several and does not say what it holds. Those of ImageNet in TFRecord are called so.
var unnamed = regexp.MustCompile(`^[^.]+-\d+-of-\d+$`)

// holdsRecords reports whether a file begins as a TFRecord file.
func holdsRecords(under source.Dataset, name string) (bool, error) {
	f, err := under.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	k, err := kindOf(f, name)
	return k == recordKind, err
}

// Pattern reports whether a path stands for several archives: it has a wildcard or braces.
func Pattern(p string) bool { return strings.ContainsAny(p, "*?[{") }

// Split divides a path or URL of archives into the directory that they are in, and what they are called there: a
// name or a pattern.
func Split(at string) (dir, pattern string) {
	end := len(at)
	if k := strings.IndexAny(at, "*?[{"); k >= 0 {
		end = k
	}
	cut := strings.LastIndexByte(at[:end], '/')
	return cmp.Or(at[:max(cut, 0)], at[:cut+1]), at[cut+1:]
}

var numbers = regexp.MustCompile(`\{(\d+)\.\.(\d+)\}`)

// maxShards bounds a range of numbers, which may be mistyped.
const maxShards = 1_000_000

// expand writes a pattern out: its first range of numbers, as WebDataset writes it, stands for each of them.
func expand(pattern string) ([]string, error) {
	at := numbers.FindStringSubmatchIndex(pattern)
	if at == nil {
		return []string{pattern}, nil
	}
	from, to := pattern[at[2]:at[3]], pattern[at[4]:at[5]]
	first, err := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	if err != nil || err2 != nil || last < first || last-first >= maxShards {
		return nil, fmt.Errorf("%s: the range {%s..%s} has to go from a number to a greater one", pattern, from, to)
	}
	var all []string
	for n := first; n <= last; n++ {
		rest, err := expand(pattern[:at[0]] + fmt.Sprintf("%0*d", len(from), n) + pattern[at[1]:])
		if err != nil {
			return nil, err
		}
		all = append(all, rest...)
	}
	return all, nil
}

// Match returns the archives of a dataset that a pattern of Split means, by name. Each number of a range has to be there.
func Match(under source.Dataset, pattern string) ([]string, error) {
	patterns, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	var shards []string
	for _, p := range patterns {
		if !Pattern(p) {
			if _, err := under.Stat(p); err != nil {
				return nil, fmt.Errorf("%s is not in %s: %w", p, under.Root(), err)
			}
			shards = append(shards, p)
			continue
		}
		if !doublestar.ValidatePattern(p) {
			return nil, fmt.Errorf("%s is no pattern of names", p)
		}
		found, err := match(under, "", strings.Split(p, "/"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no file of %s matches %s", under.Root(), p)
		}
		shards = append(shards, found...)
	}
	slices.Sort(shards)
	return slices.Compact(shards), nil
}

// match finds the files below a directory whose parts match those of a pattern, one by one.
func match(under source.Dataset, dir string, parts []string) (found []string, err error) {
	entries, err := under.List(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if ok, _ := doublestar.Match(parts[0], e.Name); !ok || e.Dir != (len(parts) > 1) {
			continue
		}
		name := path.Join(dir, e.Name)
		if !e.Dir {
			found = append(found, name)
			continue
		}
		below, err := match(under, name, parts[1:])
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, nil
}

// beside are files that lie beside archives and are none.
var beside = []string{".idx", ".index", ".json", ".jsonl", ".csv", ".tsv", ".yaml", ".yml", ".txt", ".md", ".pdf", ".py", ".sha256", ".md5"}

// MaxDepth is how deep below a directory Parquet files are looked for: `datasets` has data/train-*.parquet and CONFIG/SPLIT/*.parquet.
const MaxDepth = 3

// In returns the archives of a directory that holds nothing else, but for lists and descriptions. Directories below it may
// hold Parquet files. Where a directory holds something else, other is the first file that is, and the archives are
// some of those that lie beside it.
func In(under source.Dataset) (archives []string, other string, err error) { return in(under, "", 0) }

func in(under source.Dataset, dir string, depth int) (shards []string, other string, err error) {
	entries, err := under.List(dir)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case strings.HasPrefix(e.Name, "."), !e.Dir && isBeside(e.Name):
		case !e.Dir && (isTable(e.Name) || depth == 0 && Is(e.Name)):
			shards = append(shards, name)
		case other != "": // more archives are looked for in this directory only
		case !e.Dir && depth == 0 && unnamed.MatchString(e.Name):
			if len(shards) == 0 { // the others are looked at when they are scanned
				is, err := holdsRecords(under, name)
				if err != nil {
					return nil, "", err
				}
				if !is {
					other = name
					continue
				}
			}
			shards = append(shards, name)
		case e.Dir && depth < MaxDepth:
			below, another, err := in(under, name, depth+1)
			if err != nil {
				return nil, "", err
			}
			if other = another; other == "" && len(below) == 0 {
				other = name
			}
			shards = append(shards, below...)
		default:
			other = name
		}
	}
	return shards, other, nil
}

func isBeside(name string) bool {
	return slices.Contains(beside, strings.ToLower(path.Ext(name))) || name == "README" || name == "LICENSE"
}

// isTable goes by the name.
func isTable(name string) bool { return strings.EqualFold(path.Ext(name), ".parquet") }

// Below reports whether names of a directory may be those of archives, or of Parquet files if it lies within another one.
func Below(name string, depth int) bool {
	return depth == 0 && (Is(name) || unnamed.MatchString(name)) || isTable(name)
}
