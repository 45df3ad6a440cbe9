package shard

import (
	"bufio"
	"bytes"
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

const (
	// rankSize is the length of a hash, which begins the strings that are shuffled.
	rankSize = 32
	// sortBytes is how much is sorted in memory, in bytes.
	sortBytes = 32 << 20
)

// shuffler gives strings back in the order of the hashes that they begin with. Those that begin with the
// same byte lie together on the disk; where that is too much to sort in memory, they are spread again by the next
// byte.
type shuffler struct {
	dir   string
	depth int // which byte of the hash
	piles [256]*spool
}

func (s *shuffler) add(b []byte) (err error) {
	pile := &s.piles[b[s.depth]]
	if *pile == nil {
		if *pile, err = newSpool(s.dir); err != nil {
			return err
		}
	}
	return (*pile).add(b)
}

// each calls f with all strings.
func (s *shuffler) each(f func(b []byte) error) error {
	for _, pile := range s.piles {
		if pile == nil {
			continue
		}
		if err := s.pile(pile, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *shuffler) pile(pile *spool, f func(b []byte) error) error {
	if pile.size > sortBytes && s.depth < rankSize-1 {
		finer := &shuffler{dir: s.dir, depth: s.depth + 1}
		defer finer.close()
		if err := pile.each(finer.add); err != nil {
			return err
		}
		return finer.each(f)
	}
	all := make([]byte, 0, pile.size)
	var lines [][]byte
	err := pile.each(func(b []byte) error {
		all = append(all, b...) // has room: what was cut of it stays where it is
		lines = append(lines, all[len(all)-len(b):])
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(lines, bytes.Compare)
	for _, b := range lines {
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *shuffler) close() {
	for _, pile := range s.piles {
		if pile != nil {
			_ = pile.close() // it has no name
		}
	}
}
