package store

import (
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
		for what, read := range map[string]func(d *decoder){
			"a number":  func(d *decoder) { d.uvarint("it", limit) },
			"a count":   func(d *decoder) { d.count("it", limit, 3) },
			"of bytes":  func(d *decoder) { d.bytes("it", limit) },
			"too many":  func(d *decoder) { d.count("it", 200, map[bool]int{true: 3, false: 4}[want]) },
			"too short": func(d *decoder) { d.b = d.b[:map[bool]int{true: 101, false: 100}[want]]; d.bytes("it", 200) },
		} {
			d := &decoder{b: append([]byte{100}, make([]byte, 300)...)}
			if read(d); (d.err == nil) != want || !want && d.b != nil {
				t.Errorf("%s of 100, limit %d: %v, and %d bytes are left", what, limit, d.err, len(d.b))
			}
		}
	}
}
