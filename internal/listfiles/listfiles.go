package listfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxEntries = 10_000 // of the directory
	maxFiles   = 64
	maxBytes   = 1 << 20 // of a file
	maxTotal   = 8 << 20
	named      = 3 // files, in a Found's String
)

var extensions = []string{".txt", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml"}

// File is a file with absolute paths that lead into the dataset.
type File struct {
	Name  string // in the dataset
	Line  int    // the first that has one, from 1
	Lines int    // that have some
}

// Found are files in the order of their names.
type Found []File

// String names the first few: train.txt:1 (400 lines), val.txt:1 and 3 more files.
func (f Found) String() string {
	var words []string
	for _, file := range f[:min(len(f), named)] {
		word := fmt.Sprintf("%s:%d", file.Name, file.Line)
		if file.Lines > 1 {
			word += fmt.Sprintf(" (%d lines)", file.Lines)
		}
		words = append(words, word)
	}
	text := strings.Join(words, ", ")
	switch more := len(f) - named; {
	case more == 1:
		text += " and 1 more file"
	case more > 1:
		text += fmt.Sprintf(" and %d more files", more)
	}
	return text
}

// Look looks through a dataset. Paths are the absolute ones by which it may be named,
// such as the one that the user gave and the one without links. A file that cannot be
// read is left out.
func Look(dataset string, paths ...string) Found {
	var found Found
	wanted := spellings(paths)
	left := int64(maxTotal)
	for i, name := range candidates(dataset) {
		if i == maxFiles || left <= 0 {
			break
		}
		data, err := read(filepath.Join(dataset, name), min(left, maxBytes))
		if err != nil {
			continue
		}
		left -= int64(len(data))
		if line, lines := search(data, wanted); lines > 0 {
			found = append(found, File{name, line, lines})
		}
	}
	return found
}

// spellings are how paths may be written in a file.
func spellings(paths []string) [][]byte {
	var all []string
	for _, p := range paths {
		if p = filepath.Clean(p); !filepath.IsAbs(p) || p == "/" {
			continue
		}
		// JSON may have \/ for a slash
		all = append(all, p, strings.ReplaceAll(p, "/", `\/`))
	}
	slices.Sort(all)
	var wanted [][]byte
	for _, p := range slices.Compact(all) {
		wanted = append(wanted, []byte(p))
	}
	return wanted
}

// candidates are the names of files at the top of a dataset that may be lists.
func candidates(dataset string) []string {
	dir, err := os.Open(dataset)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxEntries) // what there is of it
	names = slices.DeleteFunc(names, func(name string) bool {
		return !slices.Contains(extensions, strings.ToLower(filepath.Ext(name)))
	})
	slices.Sort(names)
	return names
}

var errNoList = errors.New("no small file")

// read reads a file of at most so many bytes.
func read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, errNoList
	}
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// search counts the lines with one of the paths, and tells the first of them.
func search(data []byte, wanted [][]byte) (first, lines int) {
	if !slices.ContainsFunc(wanted, func(p []byte) bool { return bytes.Contains(data, p) }) {
		return 0, 0
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if slices.ContainsFunc(wanted, func(p []byte) bool { return names(line, p) }) {
			if lines++; first == 0 {
				first = n
			}
		}
	}
	return first, lines
}

// names reports whether a line has a path, as a path of its own or as the beginning of
// a longer one, and not as a part of another name.
func names(line, path []byte) bool {
	for at := 0; ; {
		i := bytes.Index(line[at:], path)
		if i < 0 {
			return false
		}
		before, after := line[:at+i], line[at+i+len(path):]
		if (len(before) == 0 || !inPath(before[len(before)-1]) || bytes.HasSuffix(before, []byte("file://"))) &&
			(len(after) == 0 || after[0] == '/' || !inPath(after[0])) {
			return true
		}
		at += i + 1
	}
}

// inPath reports whether a byte goes on with a path. Beyond ASCII all do.
func inPath(c byte) bool {
	return c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || bytes.IndexByte([]byte("/._-+~@%"), c) >= 0
}
