package shard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
)

// spool is a list of byte strings on the local disk, in a file without a name.
type spool struct {
	f    *os.File
	w    *bufio.Writer
	size int64 // bytes
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "pipefs-plan-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spool{f: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

func (s *spool) add(b []byte) error {
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(b)))
	_, err := s.w.Write(head[:n])
	if err == nil {
		_, err = s.w.Write(b)
	}
	s.size += int64(n + len(b))
	return err
}

// each calls f with all strings, in the order in which they were added. f must not keep them.
func (s *spool) each(f func(b []byte) error) error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(s.f, 0, s.size), 256<<10)
	var b []byte
	for {
		n, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b = slices.Grow(b[:0], int(n))[:n]
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		if err := f(b); err != nil {
			return err
		}
	}
}

func (s *spool) close() error { return s.f.Close() }
