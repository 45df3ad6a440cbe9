package store

import (
	"fmt"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// The documentation shows a pack that is made here from fixed input.
func TestFormatDocument(t *testing.T) {
	testenv.Example(t, "../docs/generated/store-example.md", tinyPack(t))
}

// TestLengths: a number over its limit, or more things than can follow, is an error, and nothing after it is read.
func TestLengths(t *testing.T) {
	for limit, want := range map[uint64]bool{99: false, 100: true} {
		one := map[bool]int{true: 1}[want]
		for what, read := range map[string]func(d *decoder) int{
			"a number":  func(d *decoder) int { return int(d.uvarint("it", limit)) },
			"nothing":   func(d *decoder) int { d.b = d.b[:one]; return int(d.uvarint("it", 200)) },
			"a count":   func(d *decoder) int { return d.count("it", limit, 3) },
			"of bytes":  func(d *decoder) int { return len(d.bytes("it", limit)) },
			"too many":  func(d *decoder) int { return d.count("it", 200, 4-one) },
			"too short": func(d *decoder) int { d.b = d.b[:100+one]; return len(d.bytes("it", 200)) },
		} {
			d := &decoder{b: append([]byte{100}, make([]byte, 300)...)}
			if got := read(d); (d.err == nil) != want || got != 100*one || !want && (d.b != nil || d.byte() != 0 || d.u64() != 0) {
				t.Errorf("%s of 100, limit %d: %d, %v, and %d bytes are left", what, limit, got, d.err, len(d.b))
			}
		}
	}
}

// TestRecords: a record ends where the next file would be too much.
func TestRecords(t *testing.T) {
	for _, c := range [][3]int64{{3, 0, 3}, {9, 100, 4}, {9, 99, 7}} { // samples and bytes of a record; how many records
		dir, src := tempDir(t), newSource()
		for i := range 7 {
			src.put(fmt.Sprint(i), make([]byte, 50))
		}
		mustPack(t, dir, src, PackOptions{RecordImages: int(c[0]), RecordBytes: c[1]})
		if got := mustOpen(t, dir).Stats().Records; got != c[2] {
			t.Errorf("%v: %d records", c, got)
		}
	}
}
