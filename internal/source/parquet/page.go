package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
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
	rleDictionary   = 8
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
	t.fields(func(id int16, kind byte) bool {
		switch id {
		case 1:
			h.kind = t.int()
		case 2:
			h.inflated = t.int()
		case 3:
			h.packed = t.int()
		case 4:
			h.crc, h.hasCRC = t.int(), true
		case 5, 7:
			t.fields(func(id int16, _ byte) bool {
				switch id {
				case 1:
					h.values = t.int()
				case 2:
					h.encoding = t.int()
				case 3:
					if h.kind != dataPage {
						return false
					}
					h.levels = t.int()
				default:
					return false
				}
				return true
			})
		case 8:
			t.fields(func(id int16, kind byte) bool {
				switch id {
				case 1:
					h.values = t.int()
				case 4:
					h.encoding = t.int()
				case 5:
					h.def = t.int()
				case 6:
					h.rep = t.int()
				case 7:
					h.plainV2 = kind == tFalse
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
	return h
}

// page is an inflated page.
type page struct {
	offset int64  // of packed, in the file
	packed []byte // as it lies there
	codec  Codec
	data   []byte // inflated
	parts  *parts // of a page of Snappy, once it is looked for them
}

// span is the place of a value in a page.
type span struct{ at, n int }

// chunkReader reads the pages of a chunk.
type chunkReader struct {
	column *Column
	codec  Codec
	in     *bufio.Reader
	at     int64 // in the file
	end    int64
	row    int64 // of the next value, in the group
	rows   int64

	dictionary *page
	entries    []span
}

// each calls f with the values of a column in a group, row by row; a null has no page. The values before damage are passed.
func (f *File) each(r io.ReaderAt, group, column int, yield func(row int64, p *page, s span) error) error {
	g, of := &f.Groups[group], &f.Columns[column]
	chunk := g.Chunks[column]
	c := chunkReader{
		column: of, codec: chunk.Codec, at: chunk.Offset, end: chunk.Offset + chunk.Length, rows: g.Rows,
		in: bufio.NewReaderSize(io.NewSectionReader(r, chunk.Offset, chunk.Length), int(min(max(chunk.Length, 16), maxHeader))),
	}
	if of.rep > 0 {
		return errors.New("its rows have lists of values")
	}
	for c.row < c.rows {
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
func (c *chunkReader) next(yield func(row int64, p *page, s span) error) error {
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
	levels, err := c.unpack(p, h)
	if err != nil {
		return err
	}
	if h.kind == dictionaryPage {
		if c.dictionary != nil || h.values < 0 || h.values > c.rows {
			return errPage
		}
		c.dictionary = p
		c.entries, err = c.spans(p.data, 0, int(h.values))
		return err
	}
	return c.values(p, h, levels, yield)
}

// unpack inflates a page, and returns the levels of one of version 2, which stand before it.
func (c *chunkReader) unpack(p *page, h header) (levels []byte, err error) {
	if h.kind == dataPageV2 {
		if n := int64(len(p.packed)); h.rep != 0 || h.def < 0 || h.def > n || h.def > h.inflated {
			return nil, errPage
		}
		levels, p.packed = p.packed[:h.def], p.packed[h.def:]
		p.offset += h.def
		h.inflated -= h.def
		if h.plainV2 {
			p.codec = None
		}
	}
	p.data, err = Inflate(p.codec, p.packed, int(h.inflated))
	return levels, err
}

// values passes on the values of a data page.
func (c *chunkReader) values(p *page, h header, levels []byte, yield func(row int64, p *page, s span) error) error {
	if h.values < 0 || h.values > c.rows-c.row {
		return fmt.Errorf("%w: it has %d values, and the group has %d rows more", errPage, h.values, c.rows-c.row)
	}
	n, at := int(h.values), 0
	var defs []uint32
	if c.column.def > 0 {
		if h.kind == dataPage {
			if h.levels != rle || len(p.data) < 4 {
				return errPage
			}
			length := int64(binary.LittleEndian.Uint32(p.data))
			if length > int64(len(p.data)-4) {
				return errPage
			}
			at = 4 + int(length)
			levels = p.data[4:at]
		}
		var err error
		if defs, err = hybrid(levels, bits.Len(uint(c.column.def)), n); err != nil {
			return err
		}
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
		var err error
		if defs != nil && int(defs[i]) < c.column.def {
			err = yield(c.row, nil, span{})
		} else {
			err = yield(c.row, from, spans(k))
			k++
		}
		if err != nil {
			return err
		}
		c.row++
	}
	return nil
}

// find finds n values, which begin at a place of a page. They may lie in the dictionary.
func (c *chunkReader) find(p *page, h header, at, n int) (*page, func(i int) span, error) {
	switch h.encoding {
	case plain:
		all, err := c.spans(p.data, at, n)
		return p, func(i int) span { return all[i] }, err
	case plainDictionary, rleDictionary:
		if c.dictionary == nil || n > 0 && (at >= len(p.data) || p.data[at] > 32) {
			return nil, nil, errPage
		}
		if n == 0 {
			return c.dictionary, nil, nil
		}
		numbers, err := hybrid(p.data[at+1:], int(p.data[at]), n)
		if err != nil {
			return nil, nil, err
		}
		for _, k := range numbers {
			if int(k) >= len(c.entries) {
				return nil, nil, errPage
			}
		}
		return c.dictionary, func(i int) span { return c.entries[numbers[i]] }, nil
	}
	return nil, nil, fmt.Errorf("its values have encoding %d, and only plain values and dictionaries are read", h.encoding)
}

// spans finds n plain values that begin at a place.
func (c *chunkReader) spans(data []byte, at, n int) ([]span, error) {
	size := map[Type]int{Int32: 4, Int64: 8, ByteArray: 4}[c.column.Type] // of a value, or of its length
	if size == 0 {
		return nil, fmt.Errorf("it has values of type %d, and only integers and bytes are read", c.column.Type)
	}
	if n > (len(data)-at)/size {
		return nil, errPage
	}
	all := make([]span, n)
	for i := range all {
		if len(data)-at < size {
			return nil, errPage
		}
		if c.column.Type != ByteArray {
			all[i] = span{at, size}
			at += size
			continue
		}
		length := int64(binary.LittleEndian.Uint32(data[at:]))
		at += size
		if length > int64(len(data)-at) {
			return nil, errPage
		}
		all[i] = span{at, int(length)}
		at += int(length)
	}
	return all, nil
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

var errInflate = errors.New("a page has another length than it says")

// zstdReader is shared: it decodes without a stream.
var zstdReader = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxPage))
})

// Inflate returns the bytes of a page of n bytes. It takes no more memory than that, or a small multiple of what
// packed has where that is less.
func Inflate(c Codec, packed []byte, n int) ([]byte, error) {
	if n < 0 || n > MaxPage {
		return nil, fmt.Errorf("a page would have %d bytes", n)
	}
	var data []byte
	var err error
	switch c {
	case None:
		data = packed
	case Snappy:
		if size, cause := snappy.DecodedLen(packed); cause != nil || size != n || n/64 > len(packed) {
			return nil, errInflate
		}
		data, err = snappy.Decode(nil, packed)
	case SnappyPart:
		if n/64 > len(packed) {
			return nil, errInflate
		}
		data, err = inflatePart(packed, n)
	case Gzip:
		data, err = gunzip(packed, n)
	case Zstd:
		var z *zstd.Decoder
		if z, err = zstdReader(); err != nil {
			return nil, err
		}
		var h zstd.Header
		if err := h.Decode(packed); err != nil || h.HasFCS && h.FrameContentSize != uint64(n) {
			return nil, errInflate
		}
		data, err = z.DecodeAll(packed, make([]byte, 0, min(n, 64*len(packed)+512)))
	default:
		return nil, unknown(c)
	}
	if err != nil {
		return nil, fmt.Errorf("a page is damaged: %w", err)
	}
	if len(data) != n {
		return nil, errInflate
	}
	return data, nil
}

func gunzip(packed []byte, n int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	data := bytes.NewBuffer(make([]byte, 0, min(n, 16*len(packed))+bytes.MinRead))
	_, err = io.Copy(data, io.LimitReader(z, int64(n)+1))
	return data.Bytes(), err
}

func unknown(c Codec) error {
	name := fmt.Sprintf("method %d", c)
	if int(c) < len(codecNames) {
		name = codecNames[c]
	}
	return fmt.Errorf("its pages are compressed by %s, and only Snappy, gzip and Zstandard are read", name)
}
