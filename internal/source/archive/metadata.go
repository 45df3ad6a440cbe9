package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/source"
)

// metadataName is that of a file of the columns of rows: imagefolder of `datasets` looks for it.
const metadataName = "metadata.jsonl"

// writeMetadata writes what Parquet files say of the files below a directory, which is empty or ends with a slash: for each a line of
// JSON, which has its path below the directory as file_name, then all columns that are not files.
func (d *Dataset) writeMetadata(ctx context.Context, below string, w io.Writer) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	s := &scan{Dataset: d}
	if err := s.findTables(ctx); err != nil {
		return err
	}
	for shard, t := range s.tables {
		if t == nil || t.File == nil {
			continue
		}
		if t.id != d.table.Shards[shard].Identity {
			return fmt.Errorf("%s: %w", d.shards[shard], source.ErrChanged)
		}
		if err := s.metadata(ctx, shard, below, w); err != nil {
			return fmt.Errorf("%s: %w", d.shards[shard], err)
		}
	}
	return nil
}

func (s *scan) metadata(ctx context.Context, shard int, below string, w io.Writer) error {
	t := s.tables[shard]
	f, err := s.under.OpenAs(s.shards[shard], t.id)
	if err != nil {
		return err
	}
	defer f.Close()
	f.Scattered()
	files := []string{"file_name"}
	for _, c := range t.columns {
		files = append(files, t.Columns[c].Path[0])
	}
	first := int64(0)
	for g := range t.Groups {
		labels, err := t.labelsOf(f, g)
		if err != nil {
			return err
		}
		var names [][]string
		for _, c := range t.columns {
			all, err := t.names(f, g, c, first, labels)
			if err != nil {
				return err
			}
			names = append(names, all)
		}
		err = t.Records(f, g, files, func(row int64, fields []byte) error {
			for k, c := range t.columns {
				name, is := strings.CutPrefix(names[k][row], below)
				if !is || !s.shows(names[k][row], entry{shard: shard, value: value{column: int64(c), row: first + row}}) {
					continue
				}
				text, _ := json.Marshal(name)
				if _, err := fmt.Fprintf(w, "{\"file_name\":%s%s}\n", text, fields); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		first += t.Groups[g].Rows
	}
	return f.Verify()
}

// shows reports whether a path is that of a row: one without bytes is left out.
func (s *scan) shows(name string, row entry) bool {
	if s.table.LeftOut == 0 && len(s.table.Damaged) == 0 && len(s.table.Columns) == len(s.table.Shards) {
		return true // all rows of all archives have the paths that they were given
	}
	b, dir, err := s.table.Find(name)
	if err != nil || dir {
		return false
	}
	e, err := parse(b, s.table.Shards)
	return err == nil && e.shard == row.shard && e.column == row.column && e.row == row.row
}

// hasMetadata reports whether a path is that of a file of Options.Metadata. The caller holds mu.
func (d *Dataset) hasMetadata(name string) bool {
	dir, base := path.Split(name)
	return d.o.Metadata && base == metadataName && slices.Contains(d.table.Splits, strings.TrimSuffix(dir, "/"))
}

// openMetadata makes a file of Options.Metadata when it is first asked for; nil is that a name is none.
func (d *Dataset) openMetadata(name string) ([]byte, source.Attr, error) {
	d.mu.RLock()
	is := d.hasMetadata(name)
	d.mu.RUnlock()
	if !is {
		return nil, source.Attr{}, nil
	}
	return d.makeMetadata(name)
}

// Metadata returns a line of JSON for each file: its path as file_name, then the columns of its row that are not files.
func (d *Dataset) Metadata() ([]byte, error) {
	b, _, err := d.makeMetadata(metadataName)
	return b, err
}

// makeMetadata returns a file of Options.Metadata, mapped from the disk: it may be larger than memory. It stays mapped until the
// process ends, since whoever reads it may keep it longer than its table is there.
func (d *Dataset) makeMetadata(name string) ([]byte, source.Attr, error) {
	d.mu.RLock()
	t, a := d.table, d.dir
	d.mu.RUnlock()
	b, err := get(t.rows, t.metadata, name, func() ([]byte, error, error) {
		f, err := os.CreateTemp(d.o.Dir, "metadata-")
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		w := bufio.NewWriter(f)
		err = errors.Join(os.Remove(f.Name()), d.writeMetadata(context.Background(), strings.TrimSuffix(name, metadataName), w), w.Flush())
		if err != nil {
			return nil, nil, err
		}
		size, err := f.Seek(0, io.SeekCurrent)
		if err != nil || size == 0 {
			return []byte{}, nil, err
		}
		b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
		return b, nil, os.NewSyscallError("mmap", err)
	})
	if err != nil {
		return nil, a, err
	}
	a.ID, a.Size, a.Mode = hash(name), int64(len(b)), a.Mode&0o444
	for _, id := range t.ids {
		a.ID ^= id
	}
	return b, a, nil
}

// made is an open file of Options.Metadata.
type made struct {
	*bytes.Reader
	name string
}

// Name implements [source.Opened].
func (m made) Name() string { return m.name }

// Close implements [source.Opened].
func (made) Close() error { return nil }

// Scattered implements [source.Opened].
func (made) Scattered() {}

// Fetch implements [source.Opened].
func (made) Fetch(int64, int64) {}

// Verify implements [source.Opened].
func (made) Verify() error { return nil }
