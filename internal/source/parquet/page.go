package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
)

const (
	// maxHeader is the longest header of a page that is read, in bytes: it may have statistics.
	maxHeader = 1 << 20
	// firstPeek is what is looked at first for a header.
	firstPeek = 256

	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3

	plain           = 0
	plainDictionary = 2
	rle             = 3
	deltaInts       = 5
	deltaLengths    = 6
	deltaBytes      = 7
	rleDictionary   = 8
	byteStreamSplit = 9
)

var errPage = errors.New("a page is damaged")

// header is the header of a page.
type header struct {
	kind             int64
	inflated, packed int64 // bytes
	crc              int64
	hasCRC           bool
	values           int64
	encoding         int64
	levels           int64 // encoding of definition levels
	def, rep         int64 // bytes of levels, of a page of version 2
	plainV2          bool  // not compressed, of version 2
}

func (t *thrift) header() (h header) {
	h.levels = rle
	ofPage := func(byte) { // of version 1, or of a dictionary
		t.fields(
			field{1, func(byte) { h.values = t.int() }},
			field{2, func(byte) { h.encoding = t.int() }},
			field{3, func(kind byte) {
				if h.kind == dataPage {
					h.levels = t.int()
				} else {
					t.skip(kind, false)
				}
			}},
		)
	}
	t.fields(
		field{1, func(byte) { h.kind = t.int() }},
		field{2, func(byte) { h.inflated = t.int() }},
		field{3, func(byte) { h.packed = t.int() }},
		field{4, func(byte) { h.crc, h.hasCRC = t.int(), true }},
		field{5, ofPage},
		field{7, ofPage},
		field{8, func(byte) {
			t.fields(
				field{1, func(byte) { h.values = t.int() }},
				field{4, func(byte) { h.encoding = t.int() }},
				field{5, func(byte) { h.def = t.int() }},
				field{6, func(byte) { h.rep = t.int() }},
				field{7, func(kind byte) { h.plainV2 = kind == tFalse }},
			)
		}},
	)
	return h
}

// page is an inflated page.
type page struct {
	offset int64  // of packed, in the file
	packed []byte // as it lies there
	codec  Codec
	data   []byte // inflated
	parts  *parts // of a page of Snappy, once it is looked for them
	made   bool   // data does not lie in the file as it is here
}

// span is the place of a value in a page.
type span struct{ at, n int }

// item is a value of a column, with its levels. A null has no page.
type item struct {
	row      int64 // of the group
	rep, def int
	page     *page
	span
}

func (v *item) bytes() []byte { return v.page.data[v.at : v.at+v.n] }

// chunkReader reads the pages of a chunk.
type chunkReader struct {
	column *Column
	codec  Codec
	in     *bufio.Reader
	at     int64 // in the file
	end    int64
	row    int64 // of the next value, in the group
	rows   int64
	all    int64 // values that were read

	dictionary *page
	entries    []span
}

// each calls yield with the values of a column in a group, row by row. The values before damage are passed.
func (f *File) each(r io.ReaderAt, group, column int, yield func(item) error) error {
	g, of := &f.Groups[group], &f.Columns[column]
	chunk := g.Chunks[column]
	c := chunkReader{
		column: of, codec: chunk.Codec, at: chunk.Offset, end: chunk.Offset + chunk.Length, rows: g.Rows,
		in: bufio.NewReaderSize(io.NewSectionReader(r, chunk.Offset, chunk.Length), int(min(max(chunk.Length, 16), maxHeader))),
	}
	for c.row < c.rows || of.rep > 0 && c.at < c.end { // the last list may go on
		if c.at >= c.end {
			return fmt.Errorf("%w: the column ends after row %d of %d of its group", errPage, c.row, c.rows)
		}
		if err := c.next(yield); err != nil {
			return fmt.Errorf("page at byte %d: %w", c.at, err)
		}
	}
	return nil
}

// header reads the next header.
func (c *chunkReader) header() (header, error) {
	for n := firstPeek; ; n *= 16 {
		b, err := c.in.Peek(min(n, maxHeader, int(min(c.end-c.at, maxHeader))))
		t := thrift{b: b}
		h := t.header()
		if t.err == nil {
			c.at += int64(t.at)
			_, err = c.in.Discard(t.at)
			return h, err
		}
		if n >= maxHeader || len(b) < n {
			if err != nil && !errors.Is(err, io.EOF) {
				return h, err
			}
			return h, t.err
		}
	}
}

// next reads the next page.
func (c *chunkReader) next(yield func(item) error) error {
	h, err := c.header()
	switch left := c.end - c.at; {
	case err != nil:
		return err
	case h.packed < 0 || h.packed > left || h.inflated < 0 || h.inflated > MaxPage || h.packed > MaxPage:
		return fmt.Errorf("it cannot have %d bytes, and %d inflated; %d bytes are left of the column, and pages of more than %d are not read",
			h.packed, h.inflated, left, int64(MaxPage))
	}
	if h.kind != dataPage && h.kind != dictionaryPage && h.kind != dataPageV2 {
		c.at += h.packed
		_, err := c.in.Discard(int(h.packed))
		return err
	}
	p := &page{offset: c.at, codec: c.codec, packed: make([]byte, h.packed)}
	if _, err := io.ReadFull(c.in, p.packed); err != nil {
		return err
	}
	if h.hasCRC && uint32(h.crc) != crc32.ChecksumIEEE(p.packed) {
		return fmt.Errorf("%w: its checksum is wrong", errPage)
	}
	c.at += h.packed
	reps, defs, err := c.unpack(p, h)
	if err != nil {
		return err
	}
	if h.kind == dictionaryPage {
		if c.dictionary != nil || h.values < 0 || h.values > maxGroupRows {
			return errPage
		}
		c.dictionary, c.entries, err = c.plain(p, p.data, 0, int(h.values))
		return err
	}
	return c.values(p, h, reps, defs, yield)
}

// unpack inflates a page, and returns the levels of one of version 2, which stand before it.
func (c *chunkReader) unpack(p *page, h header) (reps, defs []byte, err error) {
	if h.kind == dataPageV2 {
		n := int64(len(p.packed))
		if h.rep < 0 || h.rep > n || h.def < 0 || h.def > n-h.rep || h.rep+h.def > h.inflated {
			return nil, nil, errPage
		}
		reps, defs, p.packed = p.packed[:h.rep], p.packed[h.rep:h.rep+h.def], p.packed[h.rep+h.def:]
		p.offset += h.rep + h.def
		h.inflated -= h.rep + h.def
		if h.plainV2 {
			p.codec = None
		}
	}
	p.data, err = Inflate(p.codec, p.packed, int(h.inflated))
	return reps, defs, err
}

// levels reads n levels of a page, whose greatest is most. Those of version 1 stand in the page from a byte on.
func (c *chunkReader) levels(p *page, h header, b []byte, at *int, most, n int) ([]uint32, error) {
	if most == 0 {
		return nil, nil
	}
	if h.kind == dataPage {
		if h.levels != rle || len(p.data)-*at < 4 {
			return nil, errPage
		}
		length := int64(binary.LittleEndian.Uint32(p.data[*at:]))
		if *at += 4; length > int64(len(p.data)-*at) {
			return nil, errPage
		}
		b = p.data[*at : *at+int(length)]
		*at += int(length)
	}
	return hybrid(b, bits.Len(uint(most)), n)
}

// values passes on the values of a data page.
func (c *chunkReader) values(p *page, h header, repBytes, defBytes []byte, yield func(item) error) error {
	switch {
	case h.values < 0 || c.column.rep == 0 && h.values > c.rows-c.row:
		return fmt.Errorf("%w: it has %d values, and the group has %d rows more", errPage, h.values, c.rows-c.row)
	case c.column.rep > 0 && h.values > maxGroupRows-c.all:
		return fmt.Errorf("its lists have more than %d values in a group", maxGroupRows)
	}
	c.all += h.values
	n, at := int(h.values), 0
	reps, err := c.levels(p, h, repBytes, &at, c.column.rep, n)
	if err != nil {
		return err
	}
	defs, err := c.levels(p, h, defBytes, &at, c.column.def, n)
	if err != nil {
		return err
	}
	there := n
	for _, d := range defs {
		if int(d) < c.column.def {
			there--
		}
	}
	from, spans, err := c.find(p, h, at, there)
	if err != nil {
		return err
	}
	for i, k := 0, 0; i < n; i++ {
		v := item{row: c.row, def: c.column.def}
		if reps != nil {
			v.rep = int(reps[i])
		}
		if v.rep > 0 { // of the same row as the one before
			v.row--
		} else {
			c.row++
		}
		if v.row < 0 || v.row >= c.rows {
			return errPage
		}
		if defs != nil {
			v.def = int(defs[i])
		}
		if v.def >= c.column.def {
			v.page, v.span = from, spans(k)
			k++
		}
		if err := yield(v); err != nil {
			return err
		}
	}
	return nil
}

// find finds n values, which begin at a place of a page. They may lie in the dictionary.
func (c *chunkReader) find(p *page, h header, at, n int) (*page, func(i int) span, error) {
	b := p.data[at:]
	var all []span
	var err error
	switch h.encoding {
	case plain:
		p, all, err = c.plain(p, p.data, at, n)
	case rle:
		if len(b) < 4 || c.column.Type != Boolean {
			return nil, nil, errPage
		}
		var flags []uint32
		if flags, err = hybrid(b[4:], 1, n); err == nil {
			data := make([]byte, n)
			for i, v := range flags {
				data[i] = byte(v)
			}
			p, all, err = c.fixed(data, n)
		}
	case deltaInts:
		var ints []int64
		if ints, _, err = deltas(b, n); err == nil {
			data := make([]byte, 0, n*c.column.size)
			for _, v := range ints {
				var one [8]byte
				binary.LittleEndian.PutUint64(one[:], uint64(v))
				data = append(data, one[:min(c.column.size, 8)]...)
			}
			p, all, err = c.fixed(data, n)
		}
	case deltaLengths:
		all, err = lengths(p.data, at, n)
	case deltaBytes:
		p, all, err = suffixes(b, n)
	case byteStreamSplit:
		size := c.column.size
		if size == 0 || n > len(b)/size {
			return nil, nil, errPage
		}
		data := make([]byte, n*size)
		for i := range data {
			data[i] = b[i%size*n+i/size]
		}
		p, all, err = c.fixed(data, n)
	case plainDictionary, rleDictionary:
		if c.dictionary == nil || n > 0 && (len(b) == 0 || b[0] > 32) {
			return nil, nil, errPage
		}
		if n == 0 {
			return c.dictionary, nil, nil
		}
		numbers, err := hybrid(b[1:], int(b[0]), n)
		if err != nil {
			return nil, nil, err
		}
		for _, k := range numbers {
			if int(k) >= len(c.entries) {
				return nil, nil, errPage
			}
		}
		return c.dictionary, func(i int) span { return c.entries[numbers[i]] }, nil
	default:
		return nil, nil, fmt.Errorf("its values have encoding %d, which is not read", h.encoding)
	}
	return p, func(i int) span { return all[i] }, err
}

// plain finds n plain values that begin at a place.
func (c *chunkReader) plain(p *page, data []byte, at, n int) (*page, []span, error) {
	switch size := c.column.size; {
	case c.column.Type == Boolean:
		if n > (len(data)-at)*8 {
			return nil, nil, errPage
		}
		made := make([]byte, n)
		for i := range made {
			made[i] = data[at+i/8] >> (i % 8) & 1
		}
		return c.fixed(made, n)
	case size > 0:
		if n > (len(data)-at)/size {
			return nil, nil, errPage
		}
		return p, spansOf(at, size, n), nil
	case c.column.Type != ByteArray:
		return nil, nil, fmt.Errorf("it has values of type %d, which are not read", c.column.Type)
	}
	if n > (len(data)-at)/4 {
		return nil, nil, errPage
	}
	all := make([]span, n)
	for i := range all {
		if len(data)-at < 4 {
			return nil, nil, errPage
		}
		length := int64(binary.LittleEndian.Uint32(data[at:]))
		if at += 4; length > int64(len(data)-at) {
			return nil, nil, errPage
		}
		all[i] = span{at, int(length)}
		at += int(length)
	}
	return p, all, nil
}

// fixed is a page of n values of one size each, made of an encoding.
func (c *chunkReader) fixed(data []byte, n int) (*page, []span, error) {
	if c.column.size == 0 || len(data) != n*c.column.size {
		return nil, nil, errPage
	}
	return &page{data: data, made: true}, spansOf(0, c.column.size, n), nil
}

// spansOf are n values of one size side by side.
func spansOf(at, size, n int) []span {
	all := make([]span, n)
	for i := range all {
		all[i] = span{at + i*size, size}
	}
	return all
}

// hybrid reads n numbers of a width in bits: runs of one number, and packed ones.
func hybrid(b []byte, width, n int) ([]uint32, error) {
	all := make([]uint32, 0, n)
	for len(all) < n {
		head, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, errPage
		}
		b = b[k:]
		if head&1 == 0 { // a run
			size := (width + 7) / 8
			if len(b) < size || head>>1 == 0 {
				return nil, errPage
			}
			var v [8]byte
			copy(v[:], b[:size])
			b = b[size:]
			for range min(head>>1, uint64(n-len(all))) {
				all = append(all, uint32(binary.LittleEndian.Uint64(v[:])))
			}
			continue
		}
		groups := head >> 1 // of eight numbers
		if groups == 0 || width > 0 && groups > uint64(len(b)) {
			return nil, errPage
		}
		count := int(min(groups, uint64(n))) * 8
		if need := int(min(groups, uint64(n))) * width; len(b) < need {
			return nil, errPage
		}
		for i := range min(count, n-len(all)) {
			bit := i * width
			var v [8]byte
			copy(v[:], b[min(bit/8, len(b)):])
			all = append(all, uint32(binary.LittleEndian.Uint64(v[:])>>(bit%8)&(1<<width-1)))
		}
		b = b[min(int(groups)*width, len(b)):]
	}
	return all, nil
}
