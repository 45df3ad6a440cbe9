package store

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/store/vfs"
)

// entrySort puts entries into the order of a table, the newest of each path only,
// in bounded memory: what does not fit is sorted in pieces, which are written to a
// file without a name and merged.
type entrySort struct {
	fs    vfs.FS
	dir   string // for the file
	f     vfs.File
	end   int64 // of the file
	limit int   // of buf, bytes

	buf   []byte
	items []span // of buf
	runs  []run
}

type span struct{ off, len uint32 }

// run is a sorted piece of the file.
type run struct{ off, end int64 }

// sortBytes is how many bytes of entries are sorted at once.
const sortBytes = 32 << 20

// spillHead precedes each item in the file: its length and its checksum.
const spillHead = 8

func (s *entrySort) close() {
	if s.f != nil {
		_ = s.f.Close() // its content is gone with it
	}
}

// add takes in an entry; it is newer than those before it.
func (s *entrySort) add(at place, raw []byte) error {
	if len(raw) > maxEntry || len(entryPath(raw)) > maxPath {
		return fmt.Errorf("an entry of %d bytes", len(raw))
	}
	if len(s.buf)+leafHead+len(raw) > s.limit && len(s.items) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	start := len(s.buf)
	s.buf = binary.LittleEndian.AppendUint32(s.buf, at.pack)
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(at.base))
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(at.size))
	s.buf = append(s.buf, raw...)
	s.items = append(s.items, span{uint32(start), uint32(len(s.buf) - start)})
	return nil
}

func (s *entrySort) item(i int) []byte {
	return s.buf[s.items[i].off:][:s.items[i].len]
}

func itemPath(item []byte) []byte { return entryPath(item[leafHead:]) }

// sort orders what is in memory and keeps the newest of each path.
func (s *entrySort) sort() {
	path := func(x span) []byte { return itemPath(s.buf[x.off:][:x.len]) }
	slices.SortFunc(s.items, func(x, y span) int {
		if c := comparePaths(path(x), path(y)); c != 0 {
			return c
		}
		return int(int64(y.off) - int64(x.off)) // the newest first
	})
	s.items = slices.CompactFunc(s.items, func(x, y span) bool { return string(path(x)) == string(path(y)) })
}

// spill writes what is in memory to the file.
func (s *entrySort) spill() error {
	if s.f == nil {
		f, err := unnamed(s.fs, s.dir)
		if err != nil {
			return err
		}
		s.f = f
	}
	s.sort()
	r := run{off: s.end}
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.f, s.end), writeAhead)
	var head [spillHead]byte
	for i := range s.items {
		item := s.item(i)
		binary.LittleEndian.PutUint32(head[:], uint32(len(item)))
		binary.LittleEndian.PutUint32(head[4:], sum(item))
		_, _ = w.Write(head[:])
		_, _ = w.Write(item) // Flush returns the error
		s.end += spillHead + int64(len(item))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	r.end = s.end
	s.runs = append(s.runs, r)
	s.buf, s.items = s.buf[:0], s.items[:0]
	return nil
}

// each calls f with the newest item of each path, in order. Nothing can be added
// after it.
func (s *entrySort) each(f func(item []byte) error) error {
	s.sort()
	cursors := make([]cursor, 0, len(s.runs)+1)
	for _, r := range s.runs {
		cursors = append(cursors, &spilled{r: bufio.NewReaderSize(io.NewSectionReader(s.f, r.off, r.end-r.off), 128<<10)})
	}
	cursors = append(cursors, &sorted{s: s})
	m := merge{}
	for age, c := range cursors {
		if err := m.push(c, age); err != nil {
			return err
		}
	}
	var last []byte
	for started := false; len(m) > 0; {
		// The newest of equal paths comes first.
		if path := itemPath(m[0].item); !started || string(path) != string(last) {
			last, started = append(last[:0], path...), true
			if err := f(m[0].item); err != nil {
				return err
			}
		}
		if err := m.advance(); err != nil {
			return err
		}
	}
	return nil
}

// cursor walks over one sorted piece.
type cursor interface {
	// next returns the next item, valid until it is called again; nil at the end.
	next() ([]byte, error)
}

type sorted struct {
	s *entrySort
	i int
}

func (c *sorted) next() ([]byte, error) {
	if c.i == len(c.s.items) {
		return nil, nil
	}
	c.i++
	return c.s.item(c.i - 1), nil
}

type spilled struct {
	r    *bufio.Reader
	item []byte
}

func (c *spilled) next() ([]byte, error) {
	var head [spillHead]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n <= leafHead || n > maxEntry+leafHead {
		return nil, fmt.Errorf("the temporary file of the index: %w", errSum)
	}
	c.item = slices.Grow(c.item[:0], int(n))[:n]
	if _, err := io.ReadFull(c.r, c.item); err != nil {
		return nil, err
	}
	if sum(c.item) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, fmt.Errorf("the temporary file of the index: %w", errSum)
	}
	return c.item, nil
}

// merge is a heap of cursors, by path, then the newest first.
type merge []merging

type merging struct {
	item []byte
	c    cursor
	age  int // larger is newer
}

func (m merge) Len() int      { return len(m) }
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)   { *m = append(*m, x.(merging)) }
func (m *merge) Pop() any     { last := len(*m) - 1; x := (*m)[last]; *m = (*m)[:last]; return x }

func (m merge) Less(i, j int) bool {
	if c := comparePaths(itemPath(m[i].item), itemPath(m[j].item)); c != 0 {
		return c < 0
	}
	return m[i].age > m[j].age
}

// push begins a piece.
func (m *merge) push(c cursor, age int) error {
	item, err := c.next()
	if err == nil && item != nil {
		heap.Push(m, merging{item, c, age})
	}
	return err
}

// advance replaces the first item by the next one of its piece.
func (m *merge) advance() error {
	item, err := (*m)[0].c.next()
	if err != nil {
		return err
	}
	if (*m)[0].item = item; item == nil {
		heap.Pop(m)
	} else {
		heap.Fix(m, 0)
	}
	return nil
}

// unnamed returns a file without a name: whatever ends the process, it is gone.
func unnamed(fsys vfs.FS, dir string) (vfs.File, error) {
	name := filepath.Join(dir, fmt.Sprintf("pipefs-index-%016x", rand.Uint64()))
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
