package index

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
)

// runBytes is how many bytes of keys and values are sorted in memory, and how many are written meanwhile.
const runBytes = 8 << 20

// Sorter sorts more than memory holds: it sorts runs in memory, writes them to a file, and merges them.
type Sorter struct {
	file    *os.File // has no name
	ends    []int64  // of the runs in the file
	run     run
	full    run // is being written
	writing errgroup.Group

	n   int64
	sum uint64 // of the checksums of all that was added
}

// run is records that are sorted together.
type run struct {
	data    []byte
	records []record
}

// record is the place of a key in data, and the lengths of the key and of the value behind it.
type record struct{ at, key, value uint32 }

func (r *run) key(at record) []byte   { return r.data[at.at:][:at.key] }
func (r *run) value(at record) []byte { return r.data[at.at+at.key:][:at.value] }

func (r *run) sort() {
	slices.SortFunc(r.records, func(a, b record) int { return bytes.Compare(r.key(a), r.key(b)) })
}

// NewSorter begins to sort in a directory for temporary files; "" is that of the system.
func NewSorter(dir string) (*Sorter, error) {
	f, err := os.CreateTemp(dir, "pipefs-sort-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Sorter{file: f}, nil
}

func recordSum(key, value []byte) uint64 {
	return uint64(Sum(key))<<32 | uint64(Sum(value))
}

// Add adds a key, each of which is another one, and its value.
func (s *Sorter) Add(key, value []byte) error {
	if len(key) == 0 || len(key) > maxKey || len(value) > maxPiece {
		return fmt.Errorf("%d and %d bytes cannot be sorted", len(key), len(value))
	}
	r := &s.run
	if len(r.data)+len(key)+len(value) > runBytes {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.n++
	s.sum += recordSum(key, value)
	r.records = append(r.records, record{uint32(len(r.data)), uint32(len(key)), uint32(len(value))})
	r.data = append(append(r.data, key...), value...)
	return nil
}

// flush begins to write the run, when the one before it is written.
func (s *Sorter) flush() error {
	if err := s.writing.Wait(); err != nil {
		return err
	}
	s.run, s.full = run{s.full.data[:0], s.full.records[:0]}, s.run
	s.writing.Go(func() error {
		s.full.sort()
		out := bufio.NewWriterSize(s.file, 64<<10)
		for _, at := range s.full.records {
			if err := send(out, s.full.key(at), s.full.value(at)); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		end, err := s.file.Seek(0, io.SeekCurrent)
		s.ends = append(s.ends, end)
		return err
	})
	return nil
}

// Each calls f with all keys in the order of their bytes, and their values. f must not keep them. Nothing
// can be added from then on.
func (s *Sorter) Each(f func(key, value []byte) error) error {
	var last []byte
	n, sum := int64(0), uint64(0)
	err := s.each(func(key, value []byte) error {
		if n > 0 && bytes.Compare(last, key) >= 0 {
			return errors.New("what was sorted is not in order")
		}
		last = append(last[:0], key...)
		n++
		sum += recordSum(key, value)
		return f(key, value)
	})
	if err == nil && (n != s.n || sum != s.sum) {
		return fmt.Errorf("what was sorted is not what was given: %d of %d", n, s.n)
	}
	return err
}

func (s *Sorter) each(f func(key, value []byte) error) error {
	if err := s.writing.Wait(); err != nil {
		return err
	}
	s.full = run{}
	if len(s.ends) == 0 {
		s.run.sort()
		for _, at := range s.run.records {
			if err := f(s.run.key(at), s.run.value(at)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(s.flush(), s.writing.Wait()); err != nil {
		return err
	}
	s.run, s.full = run{}, run{}
	var all merge
	from := int64(0)
	for _, end := range s.ends {
		r := &reader{in: bufio.NewReaderSize(io.NewSectionReader(s.file, from, end-from), max(4<<10, min(64<<10, runBytes/len(s.ends))))}
		if err := r.next(); err != nil {
			return err
		}
		from, all = end, append(all, r)
	}
	heap.Init(&all)
	for len(all) > 0 {
		if err := f(all[0].key, all[0].value); err != nil {
			return err
		}
		switch err := all[0].next(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&all)
		case err != nil:
			return err
		default:
			heap.Fix(&all, 0)
		}
	}
	return nil
}

// reader reads a run.
type reader struct {
	in         *bufio.Reader
	key, value []byte
}

func (r *reader) next() (err error) {
	r.key, r.value, err = receive(r.in, r.key, r.value)
	return err
}

// merge is a heap of runs by their next key.
type merge []*reader

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return bytes.Compare(m[i].key, m[j].key) < 0 }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(r any)        { *m = append(*m, r.(*reader)) }

func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// Close removes what was sorted.
func (s *Sorter) Close() error {
	_ = s.writing.Wait() // was told, or does not matter
	return s.file.Close()
}
