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
		for what, read := range map[string]func(d *decoder) int{
			"a number": func(d *decoder) int { return int(d.uvarint("it", limit)) },
			"nothing":  func(d *decoder) int { d.b = d.b[:map[bool]int{true: 1}[want]]; return int(d.uvarint("it", 200)) },
			"a count":  func(d *decoder) int { return d.count("it", limit, 3) },
			"of bytes": func(d *decoder) int { return len(d.bytes("it", limit)) },
			"too many": func(d *decoder) int { return d.count("it", 200, map[bool]int{true: 3, false: 4}[want]) },
			"too short": func(d *decoder) int {
				d.b = d.b[:map[bool]int{true: 101, false: 100}[want]]
				return len(d.bytes("it", 200))
			},
		} {
			d := &decoder{b: append([]byte{100}, make([]byte, 300)...)}
			if got := read(d); (d.err == nil) != want || got != map[bool]int{true: 100}[want] || !want && (d.b != nil || d.byte() != 0 || d.u64() != 0) {
				t.Errorf("%s of 100, limit %d: %d, %v, and %d bytes are left", what, limit, got, d.err, len(d.b))
			}
		}
	}
}
