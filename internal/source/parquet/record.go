package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxRecord is the longest record, in bytes of JSON.
	maxRecord = 16 << 20
	// maxHeld is how many bytes of pages a group of records needs at most.
	maxHeld = 512 << 20
)

// Records calls yield with the fields of the top level of each row of a group as JSON, each with a comma before it: ,"a":1,"b":[2]. Fields
// that are in without are left out, and so are the bytes of structs of bytes and path wherever they are.
func (f *File) Records(r io.ReaderAt, group int, without []string, yield func(row int64, fields []byte) error) error {
	a := &records{File: f, items: make([][]item, len(f.Columns))}
	var fields []*node
	for _, n := range f.fields {
		if slices.Contains(without, n.name) {
			continue
		}
		if n = n.prune(); n != nil {
			fields = append(fields, n)
			if err := a.load(r, group, n); err != nil {
				return fmt.Errorf("column %q: %w", n.name, err)
			}
		}
	}
	for row := range f.Groups[group].Rows {
		a.b = a.b[:0]
		for _, n := range fields {
			a.name(',', n.name)
			if err := a.value(n); err != nil {
				return fmt.Errorf("column %q, row %d of its group: %w", n.name, row, err)
			}
		}
		for c, left := range a.items {
			if len(left) > 0 && left[0].row <= row {
				return fmt.Errorf("column %q, row %d of its group: %w", f.Columns[c].Path, row, errPage)
			}
		}
		if err := yield(row, a.b); err != nil {
			return err
		}
	}
	return nil
}

// prune returns a field without the bytes of files; nil is that nothing else is in it.
func (n *node) prune() *node {
	if len(n.fields) == 0 {
		return n
	}
	pruned := *n
	pruned.fields = nil
	isFile := len(n.fields) == 2 && n.fields[0].name == "bytes" && n.fields[1].name == "path"
	for i, c := range n.fields {
		if c = c.prune(); c != nil && (!isFile || i == 1) {
			pruned.fields = append(pruned.fields, c)
		}
	}
	if len(pruned.fields) == 0 {
		return nil
	}
	return &pruned
}

// records puts the values of the columns of a group together again.
type records struct {
	*File
	items [][]item // that were not used yet, by column
	held  int64    // bytes of pages
	b     []byte
}

// load reads the columns of a field.
func (a *records) load(r io.ReaderAt, group int, n *node) error {
	for _, c := range n.fields {
		if err := a.load(r, group, c); err != nil {
			return err
		}
	}
	if len(n.fields) > 0 {
		return nil
	}
	var last *page
	return a.each(r, group, n.column, func(v item) error {
		if v.page != nil && v.page != last {
			if a.held += int64(len(v.page.data)); a.held > maxHeld {
				return fmt.Errorf("a group has more than %d bytes", maxHeld)
			}
			last = v.page
		}
		a.items[n.column] = append(a.items[n.column], v)
		return nil
	})
}

// first is the column by whose levels a field is seen to be there.
func (n *node) first() int {
	for len(n.fields) > 0 {
		n = n.fields[0]
	}
	return n.column
}

// next is the next item of a field's first column.
func (a *records) next(n *node) (item, error) {
	if left := a.items[n.first()]; len(left) > 0 {
		return left[0], nil
	}
	return item{}, errPage
}

// pass passes by what stands for a field that is not there: an item in each of its columns.
func (a *records) pass(n *node) error {
	for _, c := range n.fields {
		if err := a.pass(c); err != nil {
			return err
		}
	}
	if len(n.fields) > 0 {
		return nil
	}
	if len(a.items[n.column]) == 0 {
		return errPage
	}
	a.items[n.column] = a.items[n.column][1:]
	return nil
}

func (a *records) name(before byte, name string) {
	text, _ := json.Marshal(strings.ToValidUTF8(name, "\uFFFD"))
	a.b = append(append(append(a.b, before), text...), ':')
}

// value appends the next value of a field: that of a repeated one is a list.
func (a *records) value(n *node) error {
	if n.repeated {
		return a.list(n, n)
	}
	return a.one(n)
}

// list appends what a field repeats: an element of each, which is the field itself or the one below it.
func (a *records) list(n, element *node) error {
	v, err := a.next(n)
	if err != nil {
		return err
	}
	if v.def < n.def {
		a.b = append(a.b, "[]"...)
		return a.pass(n)
	}
	a.b = append(a.b, '[')
	for {
		if err := a.one(element); err != nil {
			return err
		}
		if left := a.items[n.first()]; len(left) == 0 || left[0].rep != n.rep {
			a.b = append(a.b, ']')
			return nil
		}
		a.b = append(a.b, ',')
	}
}

// one appends the next value of a field, without those that are repeated behind it.
func (a *records) one(n *node) error {
	v, err := a.next(n)
	switch {
	case err != nil:
		return err
	case len(a.b) > maxRecord:
		return fmt.Errorf("a record has more than %d bytes", maxRecord)
	case n.optional && v.def < n.def:
		a.b = append(a.b, "null"...)
		return a.pass(n)
	case len(n.fields) == 0:
		a.b = a.Columns[n.column].json(a.b, v)
		return a.pass(n)
	case n.list && len(n.fields) == 1 && n.fields[0].repeated:
		of, element := n.fields[0], n.fields[0]
		if len(of.fields) == 1 && of.name != "array" && !strings.HasSuffix(of.name, "_tuple") { // else as older programs wrote it
			element = of.fields[0]
		}
		return a.list(of, element)
	}
	for i, c := range n.fields {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		a.name(before, c.name)
		if err := a.value(c); err != nil {
			return err
		}
	}
	a.b = append(a.b, '}')
	return nil
}

// json appends a value.
func (c *Column) json(b []byte, v item) []byte {
	if v.page == nil {
		return append(b, "null"...)
	}
	data := v.bytes()
	switch c.Type {
	case Boolean:
		return strconv.AppendBool(b, data[0] != 0)
	case Int32:
		n := int64(int32(binary.LittleEndian.Uint32(data)))
		if c.unsigned {
			n = int64(uint32(n))
		}
		return strconv.AppendInt(b, n, 10)
	case Int64:
		n := binary.LittleEndian.Uint64(data)
		if c.unsigned {
			return strconv.AppendUint(b, n, 10)
		}
		return strconv.AppendInt(b, int64(n), 10)
	case Float:
		return number(b, float64(math.Float32frombits(binary.LittleEndian.Uint32(data))), 32)
	case Double:
		return number(b, math.Float64frombits(binary.LittleEndian.Uint64(data)), 64)
	}
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	if !c.Text {
		text = base64.StdEncoding.EncodeToString(data)
	}
	quoted, _ := json.Marshal(text)
	return append(b, quoted...)
}

// number appends a number; JSON has none that is not finite.
func number(b []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits)
}
