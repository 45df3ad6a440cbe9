package parquet

import (
	"encoding/binary"
	"errors"
)

// Types of Thrift's compact protocol.
const (
	tStop   = 0
	tTrue   = 1
	tFalse  = 2
	tByte   = 3
	tDouble = 7
	tBinary = 8
	tList   = 9
	tSet    = 10
	tMap    = 11
	tStruct = 12
	tUUID   = 13

	// maxDepth bounds structs within structs.
	maxDepth = 32
)

var errThrift = errors.New("its metadata is damaged")

// thrift reads Thrift's compact protocol. The first error is kept; all that is read behind it is zero.
type thrift struct {
	b     []byte
	at    int
	depth int
	err   error
}

func (t *thrift) fail() {
	if t.err == nil {
		t.err = errThrift
	}
	t.at = len(t.b)
}

func (t *thrift) byte() byte {
	if t.at >= len(t.b) {
		t.fail()
		return 0
	}
	t.at++
	return t.b[t.at-1]
}

func (t *thrift) uvarint() uint64 {
	v, n := binary.Uvarint(t.b[t.at:])
	if n <= 0 {
		t.fail()
		return 0
	}
	t.at += n
	return v
}

// int reads a number of 16, 32 or 64 bits.
func (t *thrift) int() int64 {
	v := t.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// bytes reads a string, which shares its memory with what is read from.
func (t *thrift) bytes() []byte {
	n := t.uvarint()
	if n > uint64(len(t.b)-t.at) {
		t.fail()
		return nil
	}
	t.at += int(n)
	return t.b[t.at-int(n) : t.at]
}

// field reads the value of a field that is known by its number.
type field struct {
	id   int16
	read func(kind byte)
}

// fields reads a struct, of which some fields are known.
func (t *thrift) fields(known ...field) {
	if t.depth++; t.depth > maxDepth {
		t.fail()
	}
	id := int16(0)
	for t.err == nil {
		head := t.byte()
		kind := head & 15
		if kind == tStop {
			break
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			id = int16(t.int())
		}
		if t.err != nil {
			break
		}
		read := func(kind byte) { t.skip(kind, false) }
		for _, f := range known {
			if f.id == id {
				read = f.read
			}
		}
		read(kind)
	}
	t.depth--
}

// list reads a list whose items have a type. Each item takes a byte at least.
func (t *thrift) list(kind byte, of byte, item func()) {
	head := t.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = t.uvarint()
	}
	if n > uint64(len(t.b)-t.at) || n > 0 && (kind != tList || head&15 != of) {
		t.fail()
	}
	for ; n > 0 && t.err == nil; n-- {
		item()
	}
}

// skip passes a value by. In a list, a truth value takes a byte.
func (t *thrift) skip(kind byte, inList bool) {
	if t.depth++; t.depth > maxDepth {
		t.fail()
	}
	defer func() { t.depth-- }()
	switch kind {
	case tTrue, tFalse:
		if inList {
			t.byte()
		}
	case tByte:
		t.byte()
	case 4, 5, 6:
		t.uvarint()
	case tDouble:
		t.pass(8)
	case tUUID:
		t.pass(16)
	case tBinary:
		t.bytes()
	case tStruct:
		t.fields()
	case tList, tSet:
		if t.at < len(t.b) {
			of := t.b[t.at] & 15
			t.list(tList, of, func() { t.skip(of, true) })
		}
	case tMap:
		n := t.uvarint()
		if n == 0 {
			return
		}
		of := t.byte()
		for ; n > 0 && t.err == nil; n-- {
			t.skip(of>>4, true)
			t.skip(of&15, true)
		}
	default:
		t.fail()
	}
}

func (t *thrift) pass(n int) {
	if n > len(t.b)-t.at {
		t.fail()
		return
	}
	t.at += n
}
