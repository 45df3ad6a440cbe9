package blockcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"syscall"

	"github.com/pipefs/pipefs/store/vfs"
)

const (
	// unitBytes is the length of a unit, the least that is fetched; the last one of an object may be
	// shorter.
	unitBytes = 1 << 10
	// blockUnits is the length of a block. The index takes as much memory for a piece of one as for all
	// of it: larger ones take less for objects that are read as a whole.
	blockUnits = 32
	blockBytes = blockUnits * unitBytes

	magic         = "pipefs blocks 2\n"
	headerBytes   = 32
	entryBytes    = 32
	mostEntries   = 1 << 16 // of a segment
	fewestEntries = 64
	pageBytes     = 4096
	segmentSuffix = ".blocks"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// key names a block: of what object, version and size, and which one.
type key struct{ hi, lo uint64 }

// sum is the checksum of a piece. It begins with the key, so that the bytes of one block are
// not taken for those of another one.
func (k key) sum(b []byte) uint32 {
	z := (k.hi ^ k.lo) * 0x9e3779b97f4a7c15
	return crc32.Update(uint32(z>>32), castagnoli, b)
}

// units are some of the units of a block, a bit each.
type units uint32

// piece is a run of units of a block.
type piece struct{ first, n uint8 }

func (p piece) units() units { return units((uint64(1)<<p.n - 1) << p.first) }

// lowest is the first run of some units, of which there are any.
func (u units) lowest() piece {
	first := bits.TrailingZeros32(uint32(u))
	return piece{uint8(first), uint8(bits.TrailingZeros32(^(uint32(u) >> first)))}
}

// entry is a row of the table of a segment, which is a piece.
type entry struct {
	key
	off        uint32 // in the segment
	first, len uint16 // unit in the block; bytes
	sum        uint32
}

// piece is which units of its block an entry has.
func (e *entry) piece() piece {
	return piece{uint8(e.first), uint8((e.len + unitBytes - 1) / unitBytes)}
}

// valid reports whether an entry lies in a block.
func (e *entry) valid() bool {
	return e.len > 0 && int(e.first)*unitBytes+int(e.len) <= blockBytes
}

func (e *entry) append(b []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, e.hi)
	b = binary.LittleEndian.AppendUint64(b, e.lo)
	b = binary.LittleEndian.AppendUint32(b, e.off)
	b = binary.LittleEndian.AppendUint16(b, e.first)
	b = binary.LittleEndian.AppendUint16(b, e.len)
	b = binary.LittleEndian.AppendUint32(b, e.sum)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

// parse reads a row. used is false for one that was never written; ok is false for one that is
// damaged.
func (e *entry) parse(b []byte) (used, ok bool) {
	if [entryBytes]byte(b) == [entryBytes]byte{} {
		return false, false
	}
	e.hi, e.lo = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	e.off, e.sum = binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[24:])
	e.first, e.len = binary.LittleEndian.Uint16(b[20:]), binary.LittleEndian.Uint16(b[22:])
	return true, binary.LittleEndian.Uint32(b[28:]) == crc32.Checksum(b[:28], castagnoli)
}

// segment is a file with pieces of blocks. Its slices are guarded by the mu of the bucketCache.
type segment struct {
	path    string
	file    *os.File
	own     bool // this process appends to it, or may remove it
	entries int  // places in the table

	// Only whoever appends to the segment, or looks what was appended, uses these.
	next int   // the first place of the table that is not used
	end  int64 // of the file, bytes

	id     uint32
	his    []uint64 // of the keys, by place in the table; 0 where there is no piece
	pieces []piece
	offs   []uint32
	sums   []uint32
	read   []uint64 // a bit for each piece that was read in this round
	live   int64    // bytes of the pieces that are in the index
	fresh  int64    // of these, bytes of pieces that were read in this round
	stale  bool     // the last round said that nobody reads it
}

// dataStart is where the pieces of a segment begin.
func dataStart(entries int) int64 {
	return (headerBytes + int64(entries)*entryBytes + pageBytes - 1) / pageBytes * pageBytes
}

func newSegment(path string, entries int) (*segment, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 0, headerBytes)
	head = append(head, magic...)
	head = binary.LittleEndian.AppendUint32(head, uint32(entries))
	head = binary.LittleEndian.AppendUint64(head, 0)
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	if _, err := f.WriteAt(head, 0); err != nil {
		f.Close()
		return nil, errors.Join(err, os.Remove(path))
	}
	return &segment{path: path, file: f, own: true, entries: entries, end: dataStart(entries)}, nil
}

var errSegment = errors.New("no segment of a block cache, or one of another version")

// openSegment opens a segment; its table is still to be read.
func openSegment(path string, own bool) (*segment, error) {
	how := os.O_RDONLY
	if own {
		how = os.O_RDWR
	}
	f, err := vfs.OpenRegular(path, how)
	if err != nil {
		return nil, err
	}
	s := &segment{path: path, file: f, own: own}
	var head [headerBytes]byte
	if _, err = f.ReadAt(head[:], 0); err == nil || errors.Is(err, io.EOF) {
		s.entries = int(binary.LittleEndian.Uint32(head[16:]))
		s.end = dataStart(s.entries)
		if string(head[:16]) != magic || binary.LittleEndian.Uint32(head[28:]) != crc32.Checksum(head[:28], castagnoli) || s.entries > mostEntries {
			err = fmt.Errorf("%s: %w", path, errSegment)
		} else {
			err = nil
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// more reads the rows that were not read yet. Where all is false it stops at the first one that
// was never written.
func (s *segment) more(all bool) (rows []entry, err error) {
	const step = 512 // rows
	var piece [step * entryBytes]byte
	for from := s.next; from < s.entries; from += step {
		b := piece[:min(step, s.entries-from)*entryBytes]
		n, err := s.file.ReadAt(b, headerBytes+int64(from)*entryBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return rows, err
		}
		for i := range n / entryBytes {
			var e entry
			used, ok := e.parse(b[i*entryBytes:])
			if !used && !all {
				return rows, nil
			}
			if !ok || !e.valid() {
				e = entry{}
			}
			if used {
				for len(rows) < from+i-s.next { // damaged ones in between
					rows = append(rows, entry{})
				}
				rows = append(rows, e)
			}
		}
		if n < len(b) {
			break
		}
	}
	return rows, nil
}

// write appends pieces whose bytes follow each other in data, and returns their rows, with the
// first of them at the place s.next.
func (s *segment) write(loads []load, data []byte) (rows []entry, err error) {
	if s.next+len(loads) > s.entries {
		return nil, errors.New("the table is full")
	}
	if _, err := s.file.WriteAt(data, s.end); err != nil {
		return nil, err
	}
	rows, text := make([]entry, len(loads)), make([]byte, 0, len(loads)*entryBytes)
	at := 0
	for i, l := range loads {
		rows[i] = entry{l.key, uint32(s.end) + uint32(at), uint16(l.piece.first), uint16(l.bytes), l.key.sum(data[at : at+l.bytes])}
		text = rows[i].append(text)
		at += l.bytes
	}
	// The row comes after the bytes: another process that sees it sees them.
	if _, err := s.file.WriteAt(text, headerBytes+int64(s.next)*entryBytes); err != nil {
		return nil, err
	}
	s.end += int64(len(data))
	return rows, nil
}

// blank takes a row away whose piece is damaged.
func (s *segment) blank(at uint32) {
	if s.own {
		_, _ = s.file.WriteAt(make([]byte, entryBytes), headerBytes+int64(at)*entryBytes)
	}
}

// removed reports whether somebody removed the file.
func (s *segment) removed() bool {
	info, err := s.file.Stat()
	if err != nil {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// mark notes that a piece was read, and reports whether it is the first time in this round.
func (s *segment) mark(at uint32, bytes int64) bool {
	if bit := uint64(1) << (at % 64); s.read[at/64]&bit == 0 {
		s.read[at/64] |= bit
		s.fresh += bytes
		return true
	}
	return false
}

// extend makes room for more rows, and no more than that.
func (s *segment) extend(rows int) {
	n := len(s.his) + rows
	if n > cap(s.his) {
		n = min(max(n, 2*cap(s.his)), s.entries)
		s.his, s.pieces = append(make([]uint64, 0, n), s.his...), append(make([]piece, 0, n), s.pieces...)
		s.offs, s.sums = append(make([]uint32, 0, n), s.offs...), append(make([]uint32, 0, n), s.sums...)
	}
	for 64*len(s.read) < cap(s.his) {
		s.read = append(s.read, 0)
	}
}
