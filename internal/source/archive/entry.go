package archive

import (
	"encoding/binary"
	"errors"

	"github.com/pipefs/pipefs/internal/source/parquet"
)

// codec is how a member is stored.
type codec byte

const (
	stored    codec = iota // as it is
	deflated               // by deflate, with a CRC-32, behind a local header of a zip
	dirCodec               // a directory, which has no bytes
	rowCodec               // a value of a Parquet file that has not been located yet
	pageCodec              // a value within a page of a Parquet file, compressed as compression says
	zipped                 // as it is, behind a local header of a zip
)

// entry says where a member is.
type entry struct {
	shard  int   // its archive
	offset int64 // in the archive, bytes; of a zip's member, that of its local header
	packed int64 // bytes there
	size   int64 // bytes of the member
	mtime  int64 // ns since 1970
	crc    uint32
	codec  codec
	value
}

// value is the place of a member that is a value of a Parquet file.
type value struct {
	column, row int64 // of the file
	compression parquet.Codec
	inflated    int64 // bytes of the page
	place       int64 // in the inflated page
}

// isPacked reports whether the bytes of a member do not lie in its archive as they are.
func (e *entry) isPacked() bool {
	return e.codec == deflated || e.codec == pageCodec && e.compression != parquet.None
}

// hasHeader reports whether a local header of a zip precedes the bytes of a member.
func (e *entry) hasHeader() bool { return e.codec == deflated || e.codec == zipped }

func (e *entry) append(b []byte) []byte {
	b = append(b, byte(e.codec))
	b = binary.AppendUvarint(b, uint64(e.shard))
	b = binary.AppendUvarint(b, uint64(e.offset))
	b = binary.AppendUvarint(b, uint64(e.size))
	b = binary.AppendVarint(b, e.mtime)
	if e.codec == deflated {
		b = binary.AppendUvarint(b, uint64(e.packed))
		b = binary.LittleEndian.AppendUint32(b, e.crc)
	}
	if e.codec == rowCodec || e.codec == pageCodec {
		b = binary.AppendUvarint(b, uint64(e.column))
		b = binary.AppendUvarint(b, uint64(e.row))
	}
	if e.codec == pageCodec {
		b = append(b, byte(e.compression))
		b = binary.AppendUvarint(b, uint64(e.packed))
		b = binary.AppendUvarint(b, uint64(e.inflated))
		b = binary.AppendUvarint(b, uint64(e.place))
	}
	return b
}

var errEntry = errors.New("an entry that says not where its member is")

// parse checks that the member lies in its archive, one of shards.
func parse(b []byte, shards []Shard) (e entry, err error) {
	if len(b) == 0 || codec(b[0]) > zipped {
		return e, errEntry
	}
	e.codec, b = codec(b[0]), b[1:]
	number := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || int64(v) < 0 {
			err = errEntry
			return 0
		}
		b = b[n:]
		return int64(v)
	}
	shard := number()
	e.offset, e.size = number(), number()
	mtime, n := binary.Varint(b)
	if n <= 0 || err != nil || shard >= int64(len(shards)) {
		return e, errEntry
	}
	e.shard, e.mtime, b = int(shard), mtime, b[n:]
	e.packed = e.size
	if e.codec == deflated {
		if e.packed = number(); err != nil || len(b) < 4 {
			return e, errEntry
		}
		e.crc = binary.LittleEndian.Uint32(b)
	}
	if e.codec == rowCodec || e.codec == pageCodec {
		e.column, e.row = number(), number()
	}
	if e.codec == rowCodec {
		return e, err // its size is an estimate
	}
	if e.codec == pageCodec {
		if err != nil || len(b) == 0 {
			return e, errEntry
		}
		e.compression, b = parquet.Codec(b[0]), b[1:]
		e.packed, e.inflated, e.place = number(), number(), number()
		if err != nil || e.inflated > parquet.MaxPage || e.size > e.inflated || e.place > e.inflated-e.size {
			return e, errEntry
		}
	}
	if length := shards[e.shard].Identity.Size; e.packed > length || e.offset > length-e.packed {
		return e, errEntry
	}
	return e, err
}

// sorted is a member that comes out of the sorter.
type sorted struct {
	path  string
	shard uint32
	size  int64
	value []byte
}

func readSorted(key, value []byte) (sorted, error) {
	n := len(key) - sortSuffix
	if n < 0 || len(value) == 0 {
		return sorted{}, errEntry
	}
	m := sorted{path: string(key[:n]), shard: binary.BigEndian.Uint32(key[n+1:]), value: append([]byte(nil), value...)}
	rest := value[1:]
	for range 3 { // archive, offset, size
		v, k := binary.Uvarint(rest)
		if k <= 0 || int64(v) < 0 {
			return sorted{}, errEntry
		}
		m.size, rest = int64(v), rest[k:]
	}
	return m, nil
}
