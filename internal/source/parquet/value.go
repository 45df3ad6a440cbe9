package parquet

import (
	"encoding/binary"
	"errors"
	"io"
	"sort"

	"github.com/klauspost/compress/snappy"
)

// Value is where a value of bytes lies: in a page, or in a part of one that can be inflated by itself.
type Value struct {
	Offset   int64 // of the page, in the file
	Packed   int32 // bytes there
	Inflated int32 // bytes of the page
	Place    int32 // in the inflated page
	Size     int32 // bytes of the value
	Codec    Codec // of the page
	Null     bool
}

// Locate finds where the values of a column of bytes lie in a group. The values before damage are
// returned, too.
func (f *File) Locate(r io.ReaderAt, group, column int) ([]Value, error) {
	if f.Columns[column].Type != ByteArray {
		return nil, errors.New("it is no column of bytes")
	}
	all := make([]Value, 0, f.Groups[group].Rows)
	err := f.each(r, group, column, func(it item) error {
		v := Value{Null: it.page == nil}
		if it.page != nil {
			if it.page.made {
				return errors.New("its files have the encoding DELTA_BYTE_ARRAY, in which their bytes do not lie together")
			}
			v = it.page.value(it.span)
		}
		all = append(all, v)
		return nil
	})
	return all, err
}

func (p *page) value(s span) Value {
	if p.codec == None {
		return Value{Offset: p.offset + int64(s.at), Packed: int32(s.n), Inflated: int32(s.n), Size: int32(s.n)}
	}
	if v, ok := p.part(s); ok {
		return v
	}
	return Value{
		Offset: p.offset, Packed: int32(len(p.packed)), Inflated: int32(len(p.data)), Place: int32(s.at), Size: int32(s.n), Codec: p.codec,
	}
}

// errEnough ends reading.
var errEnough = errors.New("enough")

// First returns the first value of a column of bytes in a group that is not null; nil is that there is none.
func (f *File) First(r io.ReaderAt, group, column int) (value []byte, err error) {
	err = f.each(r, group, column, func(v item) error {
		if v.page == nil {
			return nil
		}
		value = v.bytes()
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return value, nil
	}
	return nil, err
}

// Integers calls yield with the values of a column of integers in a group.
func (f *File) Integers(r io.ReaderAt, group, column int, yield func(row, v int64, null bool)) error {
	return f.each(r, group, column, func(v item) error {
		switch {
		case v.page == nil:
			yield(v.row, 0, true)
		case v.n == 4:
			yield(v.row, int64(int32(binary.LittleEndian.Uint32(v.bytes()))), false)
		case v.n == 8:
			yield(v.row, int64(binary.LittleEndian.Uint64(v.bytes())), false)
		}
		return nil
	})
}

// Texts calls yield with the values of a column of bytes in a group; a null is empty.
func (f *File) Texts(r io.ReaderAt, group, column int, yield func(row int64, v []byte)) error {
	return f.each(r, group, column, func(v item) error {
		if v.page == nil {
			yield(v.row, nil)
		} else {
			yield(v.row, v.bytes())
		}
		return nil
	})
}

// SnappyPart is a part of a page of Snappy that inflates by itself. Snappy compresses each 64 KiB without those before
// them, so a picture can be read without the fifty others of its page.
const SnappyPart Codec = 64

// snappyBlock is how many bytes Snappy compresses together.
const snappyBlock = 64 << 10

// parts are the blocks of a page of Snappy.
type parts struct {
	packed, data []int // where each begins, and where the last one ends
	alone        []bool
}

// split finds the blocks of a page, as far as they begin where Snappy begins them.
func split(packed []byte) *parts {
	_, at := binary.Uvarint(packed)
	s := &parts{packed: []int{at}, data: []int{0}}
	n, first, alone := 0, 0, true
	for at < len(packed) {
		tag := packed[at]
		at++
		size, back := int(tag>>2)+1, 0
		switch tag & 3 {
		case 0:
			if more := int(tag>>2) - 59; more > 0 {
				var v [8]byte
				if len(packed)-at < more {
					return s
				}
				copy(v[:], packed[at:at+more])
				at += more
				size = int(binary.LittleEndian.Uint32(v[:])) + 1
			}
			if size > len(packed)-at {
				return s
			}
			at += size
		case 1:
			if at >= len(packed) {
				return s
			}
			size, back = int(tag>>2&7)+4, int(tag>>5)<<8|int(packed[at])
			at++
		case 2:
			if len(packed)-at < 2 {
				return s
			}
			back = int(binary.LittleEndian.Uint16(packed[at:]))
			at += 2
		case 3:
			if len(packed)-at < 4 {
				return s
			}
			back = int(binary.LittleEndian.Uint32(packed[at:]))
			at += 4
		}
		alone = alone && n-back >= first
		n += size
		if n >= (len(s.data))*snappyBlock || at == len(packed) {
			if n != len(s.data)*snappyBlock && at != len(packed) {
				return s // this is the work of another compressor
			}
			s.packed, s.data, s.alone = append(s.packed, at), append(s.data, n), append(s.alone, alone)
			first, alone = n, true
		}
	}
	return s
}

// part is the place of a value in the smallest part of its page, where that is smaller than the page.
func (p *page) part(s span) (Value, bool) {
	if p.codec != Snappy || len(p.data) <= 2*snappyBlock {
		return Value{}, false
	}
	if p.parts == nil {
		p.parts = split(p.packed)
	}
	first := s.at / snappyBlock
	end := sort.SearchInts(p.parts.data, s.at+s.n)
	if first >= end || end >= len(p.parts.data) {
		return Value{}, false
	}
	for _, alone := range p.parts.alone[first:end] {
		if !alone {
			return Value{}, false
		}
	}
	from, to := p.parts.packed[first], p.parts.packed[end]
	return Value{
		Offset: p.offset + int64(from), Packed: int32(to - from), Inflated: int32(p.parts.data[end] - p.parts.data[first]),
		Place: int32(s.at - p.parts.data[first]), Size: int32(s.n), Codec: SnappyPart,
	}, true
}

// inflatePart inflates a part, before which its length has to stand.
func inflatePart(packed []byte, n int) ([]byte, error) {
	b := binary.AppendUvarint(make([]byte, 0, len(packed)+binary.MaxVarintLen32), uint64(n))
	return snappy.Decode(nil, append(b, packed...))
}
