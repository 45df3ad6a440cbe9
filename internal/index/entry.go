package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Keys in Badger: the sentinel, which is before all others and makes sure that there is one
// before each key; then keysBegin and the key. A value that is longer than maxPiece goes on in
// pieces, whose keys are that of the first piece, two zero bytes, and their number.
var (
	sentinel  = []byte{0}
	keysBegin = byte(1)
	pieceMark = []byte{0, 0}
)

const (
	// maxPiece is below the size from which on Badger writes values apart, in bytes.
	maxPiece = 512 << 10
	maxValue = 64 << 20
	maxKey   = 16 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func castagnoliSum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// An entry in Badger is the CRC32C of all the rest, of its key, and of the build; how many
// pieces follow; the next key, of which the bytes that it begins with like this one are left
// out; and the piece of the value.
type entry struct {
	more  uint64 // pieces that follow
	next  []byte // empty at the end
	piece []byte
}

// buildID tells the tables of two builds apart.
type buildID [16]byte

func (id *buildID) sum(key, rest []byte) uint32 {
	c := crc32.Update(0, castagnoli, id[:])
	return crc32.Update(crc32.Update(c, castagnoli, key), castagnoli, rest)
}

func (id *buildID) append(b, key []byte, e entry) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.AppendUvarint(b, e.more)
	shared := 0
	for shared < min(len(key), len(e.next)) && key[shared] == e.next[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(e.next)-shared))
	b = append(b, e.next[shared:]...)
	b = append(b, e.piece...)
	binary.LittleEndian.PutUint32(b[at:], id.sum(key, b[at+4:]))
	return b
}

var errEntry = errors.New("an entry is damaged")

// parse reads an entry. next is appended to room.
func (id *buildID) parse(room, key, b []byte) (e entry, err error) {
	if len(b) < 4 || id.sum(key, b[4:]) != binary.LittleEndian.Uint32(b) {
		return e, errEntry
	}
	b = b[4:]
	take := func() uint64 {
		n, k := binary.Uvarint(b)
		if k <= 0 {
			err = errEntry
			return 0
		}
		b = b[k:]
		return n
	}
	e.more = take()
	shared, rest := take(), take()
	if err != nil || shared > uint64(len(key)) || rest > uint64(len(b)) || e.more > maxValue/maxPiece {
		return e, errEntry
	}
	e.next = append(append(room, key[:shared]...), b[:rest]...)
	e.piece = b[rest:]
	return e, nil
}

// pieceKey is the key of a further piece, from 1 on.
func pieceKey(key []byte, n int) []byte {
	b := append(bytes.Clone(key), pieceMark...)
	return binary.BigEndian.AppendUint16(b, uint16(n))
}

// checkKey refuses keys that could be taken for others.
func checkKey(key []byte) error {
	if len(key) > maxKey || bytes.Contains(key, pieceMark) {
		return fmt.Errorf("the key %.100q cannot be indexed", key)
	}
	return nil
}
