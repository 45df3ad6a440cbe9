package ptxvm

import (
	"errors"
	"strings"
	"testing"
)

// Every mistake is found, in every order, and named.
func TestFaults(t *testing.T) {
	everyWay(t, "bugs", func(r *rig) {
		fill := func(n int) uint64 { return r.give(make([]byte, n)) }
		freed := fill(256)
		if err := r.d.Free(freed); err != nil {
			r.t.Fatal(err)
		}
		for _, c := range []struct {
			entry   string
			threads uint32
			args    []any
			kind    Kind
			line    string // of the .cu, and the instruction
			says    string
		}{
			{"overrun", 32, []any{fill(100), uint32(69)}, OutOfBounds, ":5", "byte 100 of an allocation of 100"},
			{"overrun", 32, []any{fill(100), uint32(1 << 31)}, OutOfBounds, ":5", ""},
			{"overrun", 32, []any{uint64(0), uint32(0)}, OutOfBounds, ":5", "nothing is allocated"},
			{"overrun", 32, []any{freed, uint32(0)}, Freed, ":5", ""},
			{"misaligned", 32, []any{fill(100)}, Misaligned, ":7", "thread 1,0,0"},
			{"unwritten", 32, []any{r.alloc(128), r.alloc(128)}, Uninitialised, ":9", "byte 0 of an allocation"},
			{"race", 64, []any{fill(256)}, Race, "", "no barrier between"},
			{"warprace", 32, []any{fill(256)}, Race, ":22", "in line"},
			{"overwrite", 64, []any{fill(256)}, Race, ":27", "writes byte"},
			{"deadlock", 64, []any{fill(256)}, Deadlock, ":33", "bar.sync 2, 64"},
			{"absent", 32, []any{fill(256)}, Deadlock, ":39", "shfl.sync.idx"},
			{"endless", 32, []any{fill(256)}, Budget, ":44", ""},
			{"trapped", 1, []any{fill(256)}, Trap, ":48", ""},
			{"sharedrun", 32, []any{fill(256), uint32(1)}, OutOfBounds, ":56", "128 bytes of shared memory"},
			{"unset", 32, []any{fill(256)}, Uninitialised, ":63", "thread 3,0,0"},
		} {
			r.d.opts.MaxInstructions = 10000
			_, err := r.launch(c.entry, [3]uint32{2, 1, 1}, [3]uint32{c.threads, 1, 1}, 0, c.args...)
			var f *Fault
			if !errors.As(err, &f) {
				r.t.Errorf("%s: %v", c.entry, err)
				continue
			}
			if f.Kind != c.kind || f.Kernel != c.entry || f.Line == 0 || !strings.Contains(f.Source, "bugs.cu"+c.line) || !strings.Contains(err.Error(), c.says) {
				r.t.Errorf("%s, %s: %v", c.entry, c.kind, err)
			}

		}
		if kind := faultOf(r.launch("endless", [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, fill(2))); kind != OutOfBounds {
			r.t.Error(kind)
		}
	})
}

func faultOf(_ *Stats, err error) Kind {
	var f *Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

// What is switched off is not found.
func TestOptions(t *testing.T) {
	r := newRig(t, "bugs.75", Options{AllowRaces: true, AllowUninitialised: true})
	r.run("race", 1, 64, r.alloc(256))
	r.run("unwritten", 1, 32, r.alloc(128), r.alloc(128))
	r.run("unset", 1, 32, r.alloc(128))

	r = newRig(t, "warp.75", Options{})
	r.run("scan", 1, 64, r.give(make([]uint32, 64)), r.alloc(256), uint32(64))
}
