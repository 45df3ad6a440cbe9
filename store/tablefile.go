package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/internal/sstable"
	"github.com/pipefs/pipefs/store/vfs"
)

// A table file is a table and a trailer that says what it is of. Segments and indexes are
// such files.
const (
	tableMagic   = "pipefsTB"
	tableVersion = 1
	tableTrailer = 64
)

// tableSeal describes a table. Its Size is that of the blocks, in bytes.
type tableSeal struct {
	sstable.Seal
	Entries int64
	Packs   int    // that it was made from: 1 is a segment's
	Of      packID // of a segment its pack, of an index all its packs: see packsKey
}

func appendTableTrailer(b []byte, s tableSeal) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Root.Off))
	b = binary.LittleEndian.AppendUint32(b, s.Root.Len)
	b = binary.LittleEndian.AppendUint32(b, s.Root.Sum)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Height))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Packs))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Entries))
	b = append(b, s.Of[:]...)
	b = binary.LittleEndian.AppendUint32(b, tableVersion)
	b = binary.LittleEndian.AppendUint32(b, sum(b[at:]))
	return append(b, tableMagic...)
}

// sum is the checksum that the trailer has, and with it every byte of the table.
func (s *tableSeal) sum() uint32 {
	return binary.LittleEndian.Uint32(appendTableTrailer(nil, *s)[52:])
}

// readTableSeal reads the trailer of a table file.
func readTableSeal(f vfs.File) (s tableSeal, err error) {
	size, err := f.Size()
	if err != nil {
		return s, err
	}
	var b [tableTrailer]byte
	if s.Size = size - tableTrailer; s.Size < 0 {
		return s, errShort
	}
	if err := readFull(f, b[:], s.Size); err != nil {
		return s, err
	}
	switch {
	case string(b[56:]) != tableMagic:
		return s, errors.New("no trailer: it is truncated or overwritten")
	case sum(b[:52]) != binary.LittleEndian.Uint32(b[52:]):
		return s, fmt.Errorf("trailer: %w", errSum)
	case binary.LittleEndian.Uint32(b[48:]) != tableVersion:
		return s, errors.New("of another version")
	}
	s.Root = sstable.Ref{
		Off: int64(binary.LittleEndian.Uint64(b[0:])), Len: binary.LittleEndian.Uint32(b[8:]), Sum: binary.LittleEndian.Uint32(b[12:]),
	}
	s.Height, s.Packs = int(binary.LittleEndian.Uint32(b[16:])), int(binary.LittleEndian.Uint32(b[20:]))
	s.Entries = int64(binary.LittleEndian.Uint64(b[24:]))
	s.Of = packID(b[32:48])
	return s, nil
}

// openTable takes over a table file if it is of what it should be of, and closes it if it
// is not. Its blocks are checked when they are read.
func openTable(f vfs.File, of packID, packs int) (*table, error) {
	s, err := readTableSeal(f)
	if err == nil && (s.Of != of || s.Packs != packs) {
		err = errors.New("of other packs")
	}
	t := &table{f: f, seal: s}
	if err == nil {
		t.Table, err = sstable.Open(f, s.Seal, entries)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

// tableWriter writes a table file.
type tableWriter struct {
	*sstable.Writer
	f       vfs.File
	entries int64
}

func newTableWriter(f vfs.File) *tableWriter {
	return &tableWriter{Writer: sstable.NewWriter(f, entries), f: f}
}

// add appends an entry: item is a head of leafHead bytes and the encoded entry.
func (w *tableWriter) add(item []byte) error {
	w.entries++
	return w.Add(item)
}

// finish writes what is left, and the trailer. It does not sync.
func (w *tableWriter) finish(of packID, packs int) (tableSeal, error) {
	seal, err := w.Finish()
	s := tableSeal{Seal: seal, Entries: w.entries, Packs: packs, Of: of}
	if err == nil {
		_, err = w.f.WriteAt(appendTableTrailer(nil, s), s.Size)
	}
	return s, err
}

// tableError makes the error of a table file. What the operating system refuses is no
// corruption and stays what it is.
func tableError(name string, cause error) error {
	switch {
	case cause == nil:
		return nil
	case isIOError(cause):
		return fmt.Errorf("%s: %w", name, cause)
	}
	return &CorruptError{Path: name, Cause: cause}
}
