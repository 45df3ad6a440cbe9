package epoch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	iofs "io/fs"
	"sync"
)

// columnSuffix is behind the name of a column.
const columnSuffix = ".jsonl"

// columns are what the dataset says of the samples of a list beside their labels.
type columns struct {
	mu   sync.Mutex
	text []byte   // Options.Metadata
	at   []uint64 // 1 + where the line of each sample begins in text; 0: there is none
}

var fileName = []byte(`{"file_name":`)

// cutName returns the path that a line of Options.Metadata is about.
func cutName(line []byte) (name []byte) {
	line, is := bytes.CutPrefix(line, fileName)
	if !is || len(line) == 0 || line[0] != '"' {
		return nil
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '"':
			return line[1:i]
		case '\\': // seldom
			var text string
			if json.NewDecoder(bytes.NewReader(line)).Decode(&text) != nil {
				return nil
			}
			return []byte(text)
		}
	}
	return nil
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
	for from := 0; from < len(text); {
		line, _, _ := bytes.Cut(text[from:], []byte("\n"))
		lines[maphash.Bytes(seed, cutName(line))] = uint64(from) + 1
		from += len(line) + 1
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
