package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// chunks is the number of checksums that n bytes have.
func chunks(n int64) int64 { return (n + ChunkSize - 1) / ChunkSize }

// appendSums appends the checksum of each chunk of b.
func appendSums(sums []uint32, b []byte) []uint32 {
	for len(b) > 0 {
		n := min(len(b), ChunkSize)
		sums = append(sums, sum(b[:n]))
		b = b[n:]
	}
	return sums
}

var errShort = errors.New("ends too early")

// decoder takes values off the front of b. After the first error b is empty, and it
// returns zeros. It never allocates by a length that b cannot back.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.b = nil
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail("%w", errShort)
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() (v byte) {
	if b := d.take(1); b != nil {
		v = b[0]
	}
	return v
}

func (d *decoder) u64() (v uint64) {
	if b := d.take(8); b != nil {
		v = binary.LittleEndian.Uint64(b)
	}
	return v
}

// uvarint takes a number that is at most limit; what names it in the error.
func (d *decoder) uvarint(what string, limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	switch {
	case n <= 0:
		d.fail("%s: %w", what, errShort)
		return 0
	case v > limit:
		d.fail("%s is %d, over the limit of %d", what, v, limit)
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count is a uvarint that says how many things of at least size bytes follow.
func (d *decoder) count(what string, limit uint64, size int) int {
	n := d.uvarint(what, limit)
	if n > uint64(len(d.b)/size) {
		d.fail("%s is %d, more than fit into %d bytes", what, n, len(d.b))
		return 0
	}
	return int(n)
}

// bytes takes a length of at most limit, and that many bytes.
func (d *decoder) bytes(what string, limit uint64) []byte {
	return d.take(d.count(what, limit, 1))
}

// done fails where bytes are left.
func (d *decoder) done() error {
	if len(d.b) > 0 {
		d.fail("%d bytes left over", len(d.b))
	}
	return d.err
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func updateSum(s uint32, b []byte) uint32 { return crc32.Update(s, castagnoli, b) }
