package parquet

import (
	"encoding/binary"
	"errors"
	"io"
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
	err := f.each(r, group, column, func(_ int64, p *page, s span) error {
		v := Value{Null: p == nil}
		if p != nil {
			v = p.value(s)
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
	err = f.each(r, group, column, func(_ int64, p *page, s span) error {
		if p == nil {
			return nil
		}
		value = p.data[s.at : s.at+s.n]
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return value, nil
	}
	return nil, err
}

// Integers calls yield with the values of a column of integers in a group.
func (f *File) Integers(r io.ReaderAt, group, column int, yield func(row, v int64, null bool)) error {
	return f.each(r, group, column, func(row int64, p *page, s span) error {
		switch {
		case p == nil:
			yield(row, 0, true)
		case s.n == 4:
			yield(row, int64(int32(binary.LittleEndian.Uint32(p.data[s.at:]))), false)
		case s.n == 8:
			yield(row, int64(binary.LittleEndian.Uint64(p.data[s.at:])), false)
		}
		return nil
	})
}

// Texts calls yield with the values of a column of bytes in a group; a null is empty.
func (f *File) Texts(r io.ReaderAt, group, column int, yield func(row int64, v []byte)) error {
	return f.each(r, group, column, func(row int64, p *page, s span) error {
		if p == nil {
			yield(row, nil)
		} else {
			yield(row, p.data[s.at:s.at+s.n])
		}
		return nil
	})
}
