// Package parquet finds where the values of Parquet files lie. A file holds its columns in groups
// of rows; in a group, the values of a column lie in pages, each compressed for itself. Other
// readers return values. This one returns byte ranges, so that a value can be read without the
// values around it.
//
// Whatever a file says of itself is checked before memory is allocated for it.
package parquet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Magic is how a file begins and ends.
const Magic = "PAR1"

const (
	// maxFooter is the longest footer that is read, in bytes: that of 1.28 million rows in groups of 100 has 10 MB.
	maxFooter = 256 << 20
	// MaxPage is the longest page that is read, in bytes, inflated.
	MaxPage = 512 << 20
	// maxGroupRows bounds the rows of a group, and the values of its lists: the memory that it needs.
	maxGroupRows = 4 << 20
	// maxColumns bounds the columns of a file.
	maxColumns = 10_000
)

// Codec is how pages are compressed.
type Codec byte

// Codecs have the numbers of the format.
const (
	None   Codec = 0
	Snappy Codec = 1
	Gzip   Codec = 2
	Zstd   Codec = 6
	LZ4Raw Codec = 7
)

var codecNames = []string{"none", "Snappy", "gzip", "LZO", "Brotli", "LZ4", "Zstandard", "LZ4_RAW"}

// Type is that of a column.
type Type byte

// Types have the numbers of the format.
const (
	Boolean   Type = 0
	Int32     Type = 1
	Int64     Type = 2
	Int96     Type = 3
	Float     Type = 4
	Double    Type = 5
	ByteArray Type = 6
	Fixed     Type = 7
)

// Column is a column of values.
type Column struct {
	Path []string // in the schema
	Type Type
	Text bool // of strings

	size     int  // bytes of a value; 0 is that each has its own
	unsigned bool // integers
	// def and rep are the greatest levels: of optional and of repeated fields on the path.
	def, rep int
}

// Repeated reports whether rows have lists of values.
func (c *Column) Repeated() bool { return c.rep > 0 }

// Group is a group of rows.
type Group struct {
	Rows   int64
	Chunks []Chunk // one for each column
}

// Chunk is a column in a group.
type Chunk struct {
	Offset, Length int64 // in the file
	Inflated       int64 // bytes, as the file says
	Codec          Codec
	// Whole is that no value is null, as the file says.
	Whole bool
}

// Feature is what `datasets` says of a column.
type Feature struct {
	Type  string   `json:"_type"` // such as Image, or ClassLabel
	Names []string `json:"names"` // of classes
}

// File is what the footer of a file says.
type File struct {
	Rows     int64
	Columns  []Column
	Groups   []Group
	Features map[string]Feature // by the name of a column of the top level

	fields []*node // of the top level
}

// node is a field of the schema: a column, or a struct of others.
type node struct {
	name     string
	optional bool
	repeated bool
	list     bool // of what its only child repeats
	def, rep int  // the levels from which on it is there
	column   int  // or, of a struct, the first one in it
	columns  int  // in it
	fields   []*node
}

// Read reads the footer of a file.
func Read(r io.ReaderAt, size int64) (*File, error) {
	var end [8]byte
	if size < 12 {
		return nil, errors.New("it is too short for a Parquet file")
	}
	if _, err := r.ReadAt(end[:], size-8); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch magic := string(end[4:]); {
	case magic == "PARE":
		return nil, errors.New("it is encrypted")
	case magic != Magic:
		return nil, errors.New("it does not end as a Parquet file does; it may be cut")
	case length > size-12 || length > maxFooter:
		return nil, fmt.Errorf("its footer cannot have %d bytes", length)
	}
	b := make([]byte, length)
	if n, err := r.ReadAt(b, size-8-length); n < len(b) {
		return nil, err
	}
	f := &File{}
	t := &thrift{b: b}
	if err := f.parse(t); err != nil {
		return nil, err
	}
	return f, f.check(size - 8 - length)
}

func (f *File) parse(t *thrift) error {
	var schema []element
	var features []byte
	t.fields(
		field{2, func(kind byte) { t.list(kind, tStruct, func() { schema = append(schema, t.element()) }) }},
		field{3, func(byte) { f.Rows = t.int() }},
		field{4, func(kind byte) { t.list(kind, tStruct, func() { f.Groups = append(f.Groups, t.group()) }) }},
		field{5, func(kind byte) {
			t.list(kind, tStruct, func() {
				var key, value []byte
				t.fields(field{1, func(byte) { key = t.bytes() }}, field{2, func(byte) { value = t.bytes() }})
				if string(key) == "huggingface" {
					features = value
				}
			})
		}},
	)
	if t.err != nil {
		return t.err
	}
	var hub struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	f.Features = map[string]Feature{}
	if json.Unmarshal(features, &hub) == nil { // else it is of no use
		for name, raw := range hub.Info.Features {
			var one Feature
			if json.Unmarshal(raw, &one) == nil { // a list is another form
				f.Features[name] = one
			}
		}
	}
	return f.columns(schema)
}

// element is an element of the schema: a column, or a struct of others.
type element struct {
	name      string
	kind      Type
	size      int64 // of Fixed
	isColumn  bool
	text      bool
	converted int64 // the older way to say a logical type
	repeated  int64 // 0 required, 1 optional, 2 repeated
	children  int64
}

// Converted types.
const (
	toUTF8   = 0
	toList   = 3
	toEnum   = 4
	toUint8  = 11
	toUint64 = 14
	toJSON   = 19
)

func (t *thrift) element() (e element) {
	e.converted = -1
	t.fields(
		field{1, func(byte) { e.kind, e.isColumn = Type(min(uint64(t.int()), 255)), true }},
		field{2, func(byte) { e.size = t.int() }},
		field{3, func(byte) { e.repeated = t.int() }},
		field{4, func(byte) { e.name = string(t.bytes()) }},
		field{5, func(byte) { e.children = t.int() }},
		field{6, func(byte) {
			e.converted = t.int()
			e.text = e.text || e.converted == toUTF8 || e.converted == toEnum || e.converted == toJSON
		}},
		field{10, func(byte) { // its field says which logical type it is
			t.fields(
				field{1, func(kind byte) { e.text = true; t.skip(kind, false) }},
				field{3, func(kind byte) { e.converted = toList; t.skip(kind, false) }},
			)
		}},
	)
	return e
}

// group takes what a footer says of a group.
func (t *thrift) group() (g Group) {
	t.fields(
		field{1, func(kind byte) { t.list(kind, tStruct, func() { g.Chunks = append(g.Chunks, t.chunk()) }) }},
		field{3, func(byte) { g.Rows = t.int() }},
	)
	return g
}

func (t *thrift) chunk() (c Chunk) {
	first := int64(0) // where the dictionary begins, if there is one
	t.fields(field{3, func(byte) {
		c, first = Chunk{}, 0
		t.fields(
			field{4, func(byte) { c.Codec = Codec(min(uint64(t.int()), 255)) }},
			field{6, func(byte) { c.Inflated = t.int() }},
			field{7, func(byte) { c.Length = t.int() }},
			field{9, func(byte) { c.Offset = t.int() }},
			field{11, func(byte) { first = t.int() }},
			field{12, func(byte) { t.fields(field{3, func(byte) { c.Whole = t.int() == 0 }}) }},
		)
	}})
	if first > 0 && first < c.Offset {
		c.Offset = first
	}
	return c
}

// columns finds the columns of a schema, whose elements stand in the order of depth.
func (f *File) columns(schema []element) error {
	next := 0
	var walk func(path []string, def, rep, depth int) (*node, error)
	walk = func(path []string, def, rep, depth int) (*node, error) {
		if next >= len(schema) || depth > maxDepth || len(f.Columns) > maxColumns {
			return nil, errThrift
		}
		e := schema[next]
		next++
		n := &node{name: e.name, list: e.converted == toList, column: len(f.Columns)}
		if depth > 0 {
			path = append(slices.Clip(path), e.name)
			switch e.repeated {
			case 1:
				n.optional = true
				def++
			case 2:
				n.repeated = true
				def, rep = def+1, rep+1
			}
		}
		n.def, n.rep = def, rep
		if e.isColumn && e.children == 0 {
			size := map[Type]int{Boolean: 1, Int32: 4, Int64: 8, Int96: 12, Float: 4, Double: 8}[e.kind]
			if e.kind == Fixed {
				size = int(min(max(e.size, 0), MaxPage))
			}
			f.Columns = append(f.Columns, Column{Path: path, Type: e.kind, Text: e.text, size: size, def: def, rep: rep,
				unsigned: e.converted >= toUint8 && e.converted <= toUint64})
		}
		for range e.children {
			child, err := walk(path, def, rep, depth+1)
			if err != nil {
				return nil, err
			}
			if child.columns > 0 {
				n.fields = append(n.fields, child)
			}
		}
		n.columns = len(f.Columns) - n.column
		return n, nil
	}
	top, err := walk(nil, 0, 0, 0)
	if err == nil {
		f.fields = top.fields
	}
	return err
}

// check compares what a footer says with the length of what lies before it, in bytes.
func (f *File) check(end int64) error {
	rows := int64(0)
	for i, g := range f.Groups {
		if len(g.Chunks) != len(f.Columns) {
			return fmt.Errorf("its group %d has %d columns of %d", i, len(g.Chunks), len(f.Columns))
		}
		if g.Rows < 0 || g.Rows > maxGroupRows {
			return fmt.Errorf("its group %d has %d rows, and at most %d are read", i, g.Rows, maxGroupRows)
		}
		rows += g.Rows
		for k, c := range g.Chunks {
			if c.Offset < 4 || c.Length < 0 || c.Length > end || c.Offset > end-c.Length {
				return fmt.Errorf("column %q of its group %d would lie at byte %d with a length of %d, and the columns end at byte %d",
					f.Columns[k].Path, i, c.Offset, c.Length, end)
			}
		}
	}
	if rows != f.Rows || rows > end {
		return fmt.Errorf("it says that it has %d rows, and its groups have %d in %d bytes", f.Rows, rows, end)
	}
	return nil
}
